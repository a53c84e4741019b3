//! Several threads forward as one: what one of them knows the others must know, and packets must
//! meet on one of them. With one thread, the same must hold.

use super::{App, Stage, data, interest, is_refusal};
use larder_packet::mgmt::{CsInfo, CsObject, Element, FaceStatus};
use larder_packet::tlv::TlvReader;
use larder_packet::{ControlParameters, Data, Interest, InterestBuilder, LpPacket, Name};
use serde_json::Value;
use std::io::{Read, Write};

const NAMES: u32 = 40;

fn prefix(number: u32) -> String {
    format!("/a/{number}")
}

impl<S: Read + Write> App<S> {
    /// The content of a dataset.
    fn dataset(&mut self, name: &str, argument: Option<&Name>) -> Vec<u8> {
        let mut name: Name = format!("/localhost/nfd/{name}").parse().unwrap();
        if let Some(argument) = argument {
            let mut component = Vec::new();
            larder_packet::tlv::write_tlv(&mut component, 7, argument.as_bytes());
            name.push_generic(&component);
        }
        self.send(
            &InterestBuilder::new(name)
                .can_be_prefix(true)
                .must_be_fresh(true)
                .nonce(3)
                .build(),
        );
        let frame = self.receive().unwrap();
        Data::decode(&frame).unwrap().content.to_vec()
    }

    fn info(&mut self) -> CsInfo {
        let content = self.dataset("cs/info", None);
        CsInfo::decode(TlvReader::new(&content).next().unwrap().unwrap().wire).unwrap()
    }
}

/// The Interest in a frame.
fn asked(frame: &[u8]) -> Name {
    Interest::decode(LpPacket::decode(frame).unwrap().fragment.unwrap())
        .unwrap()
        .name
        .to_name()
}

/// The consumer asks for each name, and the producer, who has all, answers.
fn fetch_all(
    consumer: &mut App<impl Read + Write>,
    producer: &mut App<impl Read + Write>,
    nonce: u32,
) {
    for number in 0..NAMES {
        consumer.send(&interest(&format!("{}/x", prefix(number)), nonce + number));
        let frame = producer.receive().unwrap();
        producer.send(&data(&asked(&frame), 10));
        let frame = consumer.receive().unwrap();
        assert_eq!(
            Data::decode(&frame).unwrap().name.to_string(),
            format!("{}/x", prefix(number))
        );
    }
}

#[test]
fn an_interest_and_its_data_miss_each_other() {
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a");
    // Connections go to the threads in turn.
    let (mut one, mut other) = (stage.unix(), stage.tcp());
    fetch_all(&mut one, &mut producer, 1);
    // From the Content Store, wherever it is.
    for number in 0..NAMES {
        other.send(&interest(&format!("{}/x", prefix(number)), 1000 + number));
        assert!(
            other.receive().is_some_and(|frame| frame[0] == 6),
            "{number}"
        );
    }
    assert_eq!(stage.figure("/ndn/content_store/hits"), u64::from(NAMES));
    // And by a UDP peer.
    let peer = stage.udp();
    for number in 0..NAMES {
        peer.send(&interest(&format!("{}/x", prefix(number)), 2000 + number))
            .unwrap();
        let mut buffer = [0; 9000];
        peer.recv(&mut buffer).unwrap();
        assert_eq!(buffer[0], 6);
    }
}

#[test]
fn an_interest_for_a_prefix_is_never_answered() {
    let stage = Stage::new();
    let (mut consumer, mut producer) = (stage.unix(), stage.unix());
    producer.register("/");
    for number in 0..NAMES {
        let (name, answer) = (format!("/p{number}"), format!("/p{number}/b/c/{number}"));
        let asks = InterestBuilder::new(name.parse::<Name>().unwrap())
            .can_be_prefix(true)
            .nonce(number)
            .build();
        consumer.send(&asks);
        producer.receive().unwrap();
        producer.send(&data(&answer.parse().unwrap(), 10));
        let frame = consumer.receive().unwrap();
        assert_eq!(Data::decode(&frame).unwrap().name.to_string(), answer);
    }
    assert_eq!(stage.figure("/ndn/pit_entries"), 0);
}

#[test]
fn a_route_or_strategy_is_known_to_some_threads_only() {
    let stage = Stage::new();
    let (mut consumer, mut producer, mut second) = (stage.unix(), stage.unix(), stage.unix());
    for number in 0..NAMES {
        producer.register(&prefix(number));
    }
    fetch_all(&mut consumer, &mut producer, 1);
    let strategy = |prefix: &str| ControlParameters {
        name: Some(prefix.parse().unwrap()),
        strategy: Some("/localhost/nfd/strategy/multicast".parse().unwrap()),
        ..Default::default()
    };
    consumer.obeyed("strategy-choice/set", &strategy("/m"));
    producer.register("/m");
    second.register("/m");
    for number in 0..NAMES {
        consumer.send(&interest(&format!("/m/{number}/x"), 5000 + number));
        assert_eq!(
            asked(&producer.receive().unwrap()),
            asked(&second.receive().unwrap()),
            "both are asked"
        );
    }
    for number in 0..NAMES {
        let parameters = ControlParameters {
            name: Some(prefix(number).parse().unwrap()),
            ..Default::default()
        };
        producer.obeyed("rib/unregister", &parameters);
    }
    for number in 0..NAMES {
        consumer.send(&interest(&format!("{}/y", prefix(number)), 9000 + number));
        assert!(is_refusal(&consumer.receive().unwrap()), "{number}");
    }
}

#[test]
fn a_face_that_is_gone_is_asked_still() {
    let stage = Stage::new();
    for round in 0..3 {
        let (mut consumer, mut producer) = (stage.unix(), stage.unix());
        producer.register("/a");
        let faces = consumer.faces().len();
        drop(producer);
        let patience = std::time::Instant::now();
        while consumer.faces().len() == faces {
            assert!(patience.elapsed() < super::PATIENCE, "the face stays");
        }
        for number in 0..NAMES {
            consumer.send(&interest(&prefix(number), round * 100 + number));
            assert!(is_refusal(&consumer.receive().unwrap()), "{number}");
        }
    }
}

/// The what-if analysis takes all threads for one cache.
#[test]
fn the_analysis_is_of_one_thread_only() {
    let stage = Stage::with("content_store = \"1MiB\"");
    let (mut consumer, mut producer) = (stage.unix(), stage.unix());
    producer.register("/a");
    fetch_all(&mut consumer, &mut producer, 1);
    let deadline = std::time::Instant::now() + super::PATIENCE;
    let mut nonce = 1_000;
    // It sees the requests from its first look on.
    while stage
        .status()
        .pointer("/ndn/what_if/requests")
        .and_then(Value::as_u64)
        .unwrap_or(0)
        < 1_000
    {
        assert!(std::time::Instant::now() < deadline, "{}", stage.status());
        for number in 0..NAMES {
            nonce += 1;
            consumer.send(&interest(&format!("{}/x", prefix(number)), nonce));
            assert!(
                consumer.receive().is_some_and(|frame| frame[0] == 6),
                "{number}"
            );
        }
    }
    assert_eq!(stage.figure("/ndn/what_if/capacity"), 1 << 20);
    let what_if = stage.status()["ndn"]["what_if"].take();
    // A first request for each name misses, in the store or in the miniature caches.
    assert!(
        what_if["measured"]["object_hit_ratio"].as_f64().unwrap() > 0.95,
        "{what_if}"
    );
    for cell in what_if["cells"].as_array().unwrap() {
        let is_large = cell["capacity"].as_u64().unwrap() >= 1 << 20;
        // The sample may be a part of the names: the analysis keeps to its share of the processor.
        let [ratio, error, rate] =
            ["object_hit_ratio", "object_error", "rate"].map(|of| cell[of].as_f64().unwrap());
        assert!(
            !is_large || ratio + error > 0.95 && (rate < 1.0 || ratio > 0.95),
            "{cell}"
        );
    }
}

#[test]
fn figures_are_one_threads_only() {
    let stage = Stage::with("content_store = \"1MiB\"");
    let (mut consumer, mut producer) = (stage.unix(), stage.unix());
    producer.register("/a");
    fetch_all(&mut consumer, &mut producer, 1);
    let info = consumer.info();
    assert_eq!(
        (info.entries, info.misses, info.capacity_bytes),
        (u64::from(NAMES), u64::from(NAMES), Some(1 << 20))
    );
    assert_eq!(stage.figure("/ndn/content_store/capacity_bytes"), 1 << 20);
    let content = consumer.dataset("cs/query", Some(&"/a".parse().unwrap()));
    let stored: Vec<Name> = TlvReader::new(&content)
        .map(|object| CsObject::decode(object.unwrap().wire).unwrap().name)
        .collect();
    assert!(
        stored.len() as u32 == NAMES && stored.is_sorted(),
        "{stored:?}"
    );
    let faces: Vec<FaceStatus> = consumer.faces();
    assert!(
        faces
            .iter()
            .any(|face| face.out_interests == u64::from(NAMES)),
        "the producer's"
    );
    // Each is erased once, and no more than was asked for.
    let erase = |count| ControlParameters {
        name: Some("/a".parse().unwrap()),
        count,
        ..Default::default()
    };
    assert_eq!(
        consumer.obeyed("cs/erase", &erase(Some(30))).count,
        Some(30)
    );
    assert_eq!(consumer.info().entries, u64::from(NAMES) - 30);
    assert_eq!(
        consumer.obeyed("cs/erase", &erase(None)).count,
        Some(u64::from(NAMES) - 30)
    );
    assert_eq!(consumer.info().entries, 0);
    // The settings of the store are everybody's.
    let config = ControlParameters {
        capacity_bytes: Some(1 << 19),
        flags: Some(0),
        mask: Some(1),
        ..Default::default()
    };
    let said = consumer.obeyed("cs/config", &config);
    assert_eq!(said.capacity_bytes, Some(1 << 19));
    fetch_all(&mut consumer, &mut producer, 7000);
    let info = consumer.info();
    assert_eq!(
        (info.entries, info.capacity_bytes),
        (0, Some(1 << 19)),
        "nothing is admitted"
    );
}

#[test]
fn names_of_this_machine_leave_it() {
    let stage = Stage::new();
    let (peer, mut producer) = (stage.udp(), stage.unix());
    producer.register("/localhost/p");
    for number in 0..NAMES {
        peer.send(&interest(&format!("/localhost/p/{number}"), number))
            .unwrap();
    }
    // What is answered was handled after all those of its thread; both threads are asked.
    for number in 0..NAMES {
        peer.send(&interest(&format!("/no/route/{number}"), 1000 + number))
            .unwrap();
        let mut buffer = [0; 9000];
        let length = peer.recv(&mut buffer).unwrap();
        assert!(is_refusal(&buffer[..length]));
    }
    assert_eq!(stage.figure("/ndn/drops/scope"), u64::from(NAMES));
}

//! One reader that does not read must not take memory without bound, nor anything from the others.

use super::{Stage, interest};
use larder_node::limits::APPLICATION_QUEUE_BYTES;
use larder_packet::{Interest, LpPacket};
use std::io::Write;

#[test]
fn a_reader_that_does_not_read_loses_its_own_packets_only() {
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a");
    let (mut slow, mut quick) = (stage.tcp(), stage.unix());
    // Far more than the queue and the kernel's buffers hold: the same Data, from the Content Store.
    slow.send(&interest("/a/large", 1));
    producer.produce(8000);
    let copies = APPLICATION_QUEUE_BYTES / 8000 + 6000;
    for nonce in 0..copies as u32 {
        slow.send(&interest("/a/large", nonce + 2));
    }
    quick.send(&interest("/a/small", 1));
    producer.produce(100);
    let frame = quick.receive().expect("the others are served");
    assert_eq!(frame[0], 6);
    // Sent first, so it was handled first: what the slow reader lost is counted by now, or soon. If
    // another thread answers, it may be lost on the way to the reader's thread.
    let patience = std::time::Instant::now();
    while stage.figure("/ndn/drops/queue_full") + stage.figure("/ndn/drops/shard_full") == 0 {
        assert!(patience.elapsed() < super::PATIENCE, "nothing was dropped");
        std::thread::yield_now();
    }
    if super::shards() > 1 {
        // The loss on the way may have left its queue short.
        return;
    }
    let is_slow = |face: &serde_json::Value| face["queued_bytes"].as_u64() > Some(1 << 20);
    assert!(
        stage.figure("/ndn/queued_bytes") > 1 << 20 && stage.all_faces().iter().any(is_slow),
        "it waits nowhere"
    );
    // It reads at last: what had been queued comes whole. It goes on asking, so its queue stays
    // long, which the marks tell.
    let (mut marked, mut nonce, end) = (0, u32::MAX, std::time::Instant::now() + super::PATIENCE);
    while marked == 0 {
        assert!(
            std::time::Instant::now() < end,
            "its queue stays long, and nothing is marked"
        );
        nonce -= 1;
        slow.send(&interest("/a/large", nonce));
        let frame = slow.receive().expect("whole packets");
        let packet = LpPacket::decode(&frame).unwrap();
        marked += u64::from(packet.header.congestion_mark == Some(1));
        assert!(larder_packet::Data::decode(packet.fragment.unwrap()).is_ok());
    }
    let counted = stage
        .all_faces()
        .iter()
        .filter_map(|face| face["marked_packets"].as_u64())
        .sum::<u64>();
    assert!(
        counted >= marked && stage.figure("/ndn/marked_packets") >= counted,
        "{marked} were marked, {counted} counted"
    );
}

/// A consumer with a large window, as ndncatchunks has it after its slow start: its Interests come
/// in reads of 64 KiB, and each read asks for several times what its queue takes.
#[test]
fn a_consumer_that_reads_loses_what_it_asked_for_at_once() {
    if super::shards() > 1 {
        // What another thread answers is queued after the face was read: it has no backpressure.
        return;
    }
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a");
    let mut consumer = stage.unix();
    consumer.send(&interest("/a/large", 1));
    producer.produce(8000);
    assert!(consumer.receive().is_some());
    let copies = 3500;
    let mut writer = consumer.stream.try_clone().unwrap();
    let burst: Vec<u8> = (0..copies)
        .flat_map(|nonce| interest("/a/large", nonce + 2))
        .collect();
    assert!(burst.len() > 65_536, "more than one read");
    let written = std::thread::spawn(move || writer.write_all(&burst).unwrap());
    let mut marked = 0;
    for number in 0..copies {
        let frame = consumer.receive().expect("all that was asked for");
        if number < 400 {
            // It reads all the time, and at first more slowly than the node answers.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        marked += u64::from(LpPacket::decode(&frame).unwrap().header.congestion_mark == Some(1));
    }
    written.join().unwrap();
    assert_eq!(stage.figure("/ndn/content_store/hits"), u64::from(copies));
    assert!(
        marked > 0,
        "the consumer learns that it asks for too much at once"
    );
}

/// A consumer that the system stops for a moment, on a machine with other work: it has asked for
/// as much as its window allows.
#[test]
fn a_consumer_that_does_not_read_for_a_moment_loses_hits() {
    if super::shards() > 1 {
        // What another thread answers at once may be more than that thread may pass on.
        return;
    }
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a");
    let mut consumer = stage.unix();
    consumer.send(&interest("/a/large", 1));
    producer.produce(8000);
    assert!(consumer.receive().is_some());
    let copies = 1500;
    let burst: Vec<u8> = (0..copies)
        .flat_map(|nonce| interest("/a/large", nonce + 2))
        .collect();
    consumer.stream.write_all(&burst).unwrap();
    stage.await_figure("/ndn/content_store/hits", |hits| hits == u64::from(copies));
    for _ in 0..copies {
        assert!(consumer.receive().is_some(), "all that it asked for");
    }
    assert_eq!(stage.figure("/ndn/drops/queue_full"), 0);
}

/// The same, of what a producer answers at once.
#[test]
fn a_consumer_that_does_not_read_for_a_moment_loses_misses() {
    let stage = Stage::new();
    let mut producer = stage.unix();
    producer.register("/a");
    let mut consumer = stage.unix();
    let wanted = 1000;
    for number in 0..wanted {
        consumer.send(&interest(&format!("/a/{number}"), number + 1));
    }
    for _ in 0..wanted {
        producer.produce(8000);
    }
    stage.await_figure("/ndn/satisfied_interests", |satisfied| {
        satisfied >= u64::from(wanted)
    });
    for _ in 0..wanted {
        assert!(consumer.receive().is_some(), "all that it asked for");
    }
    assert_eq!(stage.figure("/ndn/drops/queue_full"), 0);
}

#[test]
fn an_application_that_dies_takes_its_routes_with_it() {
    let stage = Stage::new();
    let mut consumer = stage.unix();
    let mut producer = stage.tcp();
    producer.register("/a");
    consumer.send(&interest("/a/1", 1));
    let frame = producer.receive().unwrap();
    assert_eq!(Interest::decode(&frame).unwrap().name.to_string(), "/a/1");
    drop(producer);
    // The node learns of it in its own time.
    let patience = std::time::Instant::now();
    while stage.figure("/ndn/rib_routes") > 0 {
        assert!(patience.elapsed() < super::PATIENCE, "the route stands");
        std::thread::yield_now();
    }
    consumer.send(&interest("/a/2", 2));
    assert!(super::is_refusal(&consumer.receive().unwrap()));
}

//! A strategy from outside the crate: a program registers it, and an operator chooses it by name.

use larder_forwarder::strategy::{
    Build, Decision, Strategy, StrategyEntry, StrategyError, Suppression,
};
use larder_forwarder::{Config, FaceConfig, FaceId, Forwarder, Outbox, Route};
use larder_packet::{
    ControlParameters, ControlResponse, Data, DigestSigner, InterestBuilder, Name,
    SignatureFreshness,
};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};

/// Sends each Interest to the most expensive next hop.
struct Dearest {
    suppression: Suppression,
}

impl Strategy for Dearest {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        let dearest = decision.next_hops().last();
        match dearest {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        decision.refuse_if_all_refused();
    }
}

const BUILD: Build = |parameters, _| {
    Ok(Box::new(Dearest {
        suppression: Suppression::new(parameters)?,
    }))
};
const DEAREST: StrategyEntry = StrategyEntry {
    name: "dearest",
    version: 1,
    summary: "a strategy of this test",
    parameters: &[],
    build: BUILD,
};

/// A forwarder with a consumer, and a cheap and a dear next hop for `/`.
fn forwarder() -> (Forwarder, FaceId, [FaceId; 2]) {
    let streams = Streams::new(1);
    let engine = Engine::new(&"fifo".parse().unwrap(), ByteSize::from_mib(1), &streams).unwrap();
    let mut forwarder = Forwarder::new(Config::new([1, 2], streams), engine);
    let consumer = forwarder.add_face(FaceConfig::local("unix://consumer"));
    let next_hops = [1, 2].map(|cost| {
        let face = forwarder.add_face(FaceConfig::remote(format!("udp4://192.0.2.{cost}:6363")));
        let route = Route {
            face,
            origin: 255,
            cost,
            flags: 0,
            expires: None,
        };
        forwarder.add_route(&Name::root(), route).unwrap();
        face
    });
    (forwarder, consumer, next_hops)
}

fn next_hop_of(forwarder: &mut Forwarder, consumer: FaceId, uri: &str) -> FaceId {
    let mut outbox = Outbox::new();
    let mut interest = InterestBuilder::new(uri.parse::<Name>().unwrap())
        .nonce(7)
        .build();
    forwarder
        .on_packet(Time::ZERO, consumer, &mut interest, &mut outbox)
        .unwrap();
    outbox.drain().next().unwrap().face
}

/// Sets a strategy by the NFD management protocol, and returns the status code.
fn choose(forwarder: &mut Forwarder, application: FaceId, prefix: &str, strategy: &str) -> u64 {
    let parameters = ControlParameters {
        name: Some(prefix.parse().unwrap()),
        strategy: Some(strategy.parse().unwrap()),
        ..ControlParameters::default()
    };
    let mut command: Name = "/localhost/nfd/strategy-choice/set".parse().unwrap();
    command.push_generic(&parameters.encode());
    let command = InterestBuilder::new(&command).nonce(9);
    let mut frame = command
        .sign(&DigestSigner, SignatureFreshness::default())
        .unwrap();
    let mut outbox = Outbox::new();
    forwarder
        .on_packet(Time::ZERO, application, &mut frame, &mut outbox)
        .unwrap();
    let send = outbox.drain().next().unwrap();
    let data = Data::decode(send.packet(&frame)).unwrap();
    ControlResponse::decode(data.content).unwrap().status_code
}

#[test]
fn a_registered_strategy_is_chosen_by_name_and_decides() {
    let (mut forwarder, consumer, [cheap, dear]) = forwarder();
    let unknown = forwarder
        .strategy_registry()
        .by_name("dearest")
        .unwrap_err();
    assert!(unknown.to_string().contains("best-route"), "{unknown}");
    forwarder.register_strategy(DEAREST).unwrap();
    let strategy = forwarder.strategy_registry().by_name("dearest").unwrap();
    assert_eq!(strategy.to_string(), "/localhost/nfd/strategy/dearest/v=1");
    forwarder
        .set_strategy(&"/dear".parse().unwrap(), &strategy)
        .unwrap();
    assert_eq!(next_hop_of(&mut forwarder, consumer, "/dear/a"), dear);
    assert_eq!(next_hop_of(&mut forwarder, consumer, "/other/a"), cheap);
}

#[test]
fn a_management_command_chooses_a_registered_strategy() {
    let (mut forwarder, consumer, [_, dear]) = forwarder();
    let strategy = "/localhost/nfd/strategy/dearest";
    assert_eq!(choose(&mut forwarder, consumer, "/dear", strategy), 404);
    forwarder.register_strategy(DEAREST).unwrap();
    let parameterized = "/localhost/nfd/strategy/dearest/v=1/retx-suppression-max~500";
    assert_eq!(
        choose(&mut forwarder, consumer, "/dear", parameterized),
        200
    );
    assert_eq!(next_hop_of(&mut forwarder, consumer, "/dear/a"), dear);
    let chosen = forwarder.strategy_of(&"/dear".parse().unwrap()).unwrap();
    assert_eq!(chosen.to_string(), parameterized);
    // As with NFD, a command may have parameters that the strategy does not know; a value that it
    // cannot use is refused.
    let more = "/localhost/nfd/strategy/dearest/v=1/no-such~1";
    assert_eq!(choose(&mut forwarder, consumer, "/dear", more), 200);
    let wrong = "/localhost/nfd/strategy/dearest/v=1/retx-suppression-max~x";
    assert_eq!(choose(&mut forwarder, consumer, "/dear", wrong), 409);
}

#[test]
fn a_name_that_is_taken_or_cannot_be_chosen_is_refused() {
    let (mut forwarder, ..) = forwarder();
    forwarder.register_strategy(DEAREST).unwrap();
    for name in ["dearest", "best-route", "", "Dearest", "a/b"] {
        let refused = forwarder.register_strategy(StrategyEntry { name, ..DEAREST });
        assert!(
            matches!(refused, Err(StrategyError::NotRegistered { .. })),
            "{name:?}: {refused:?}"
        );
    }
}

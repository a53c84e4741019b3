//! One forwarder with its faces, and packets as the tests see them.

use larder_forwarder::{
    Config, DropReason, FaceConfig, FaceId, Forwarder, HostRequest, Outbox, Route,
};
use larder_packet::{
    ControlParameters, ControlResponse, Data, DataBuilder, DigestSigner, Interest, InterestBuilder,
    LpHeader, LpPacket, NackReason, Name, SignatureFreshness, encode_lp,
};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};
use std::time::Duration;

pub struct World {
    pub forwarder: Forwarder,
    pub now: Time,
    pub outbox: Outbox,
    /// What management asked of the host.
    pub requests: Vec<HostRequest>,
    commands: u32,
}

/// A packet that the forwarder sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Interest {
        name: Name,
        nonce: u32,
        hop_limit: Option<u8>,
    },
    Data {
        name: Name,
        content: Vec<u8>,
    },
    Nack {
        name: Name,
        nonce: u32,
        hop_limit: Option<u8>,
        reason: NackReason,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub face: FaceId,
    pub packet: Packet,
    pub token: Option<Vec<u8>>,
    pub ban: Option<u64>,
    pub rate: Option<u64>,
    pub incoming_face: Option<u64>,
}

impl World {
    pub fn new() -> Self {
        World::with("fifo", ByteSize::from_mib(1))
    }

    pub fn with(policy: &str, capacity: ByteSize) -> Self {
        let streams = Streams::new(1);
        let engine = Engine::new(&policy.parse().unwrap(), capacity, &streams).unwrap();
        World::of(Forwarder::new(Config::new([1, 2], streams), engine))
    }

    pub fn of(forwarder: Forwarder) -> Self {
        World {
            forwarder,
            now: Time::ZERO,
            outbox: Outbox::new(),
            requests: Vec::new(),
            commands: 0,
        }
    }

    pub fn local(&mut self) -> FaceId {
        self.forwarder.add_face(FaceConfig::local("test"))
    }

    pub fn remote(&mut self) -> FaceId {
        self.forwarder.add_face(FaceConfig::remote("test"))
    }

    pub fn route(&mut self, prefix: &str, face: FaceId, cost: u64) {
        let route = Route {
            face,
            origin: 255,
            cost,
            flags: 1,
            expires: None,
        };
        self.forwarder
            .add_route(&prefix.parse().unwrap(), route)
            .unwrap();
    }

    /// Hands in a frame; what was sent, or why it was dropped (what was sent besides is lost then).
    pub fn frame(&mut self, face: FaceId, mut frame: Vec<u8>) -> Result<Vec<Sent>, DropReason> {
        let result = self
            .forwarder
            .on_packet(self.now, face, &mut frame, &mut self.outbox);
        let sent = self.collect(&frame);
        result.map(|()| sent).map_err(|dropped| dropped.reason)
    }

    /// Hands in a frame, whatever becomes of it.
    pub fn sent(&mut self, face: FaceId, mut frame: Vec<u8>) -> Vec<Sent> {
        let _ = self
            .forwarder
            .on_packet(self.now, face, &mut frame, &mut self.outbox);
        self.collect(&frame)
    }

    pub fn interest(&mut self, face: FaceId, name: &str, nonce: u32) -> Vec<Sent> {
        self.sent(face, interest(name, nonce).build())
    }

    pub fn data(&mut self, face: FaceId, name: &str) -> Vec<Sent> {
        self.sent(face, data(name, b"content", None))
    }

    /// Sends a command, and reads the response to it.
    pub fn command(
        &mut self,
        face: FaceId,
        module: &str,
        verb: &str,
        parameters: &ControlParameters,
    ) -> ControlResponse {
        self.commands += 1;
        let sent = self.sent(face, command(module, verb, parameters, self.commands));
        response(&sent, face)
    }

    /// Fetches a whole dataset: its content, and how many segments it took.
    pub fn dataset(&mut self, face: FaceId, name: &Name) -> (Vec<u8>, u64) {
        let fetch = |world: &mut World, name: &Name, prefix: bool| {
            let frame = InterestBuilder::new(name)
                .can_be_prefix(prefix)
                .must_be_fresh(true)
                .nonce(1)
                .build();
            let sent = world.sent(face, frame);
            match &sent[..] {
                [
                    Sent {
                        packet: Packet::Data { name, content },
                        ..
                    },
                ] => (name.clone(), content.clone()),
                other => panic!("{name}: {other:?}"),
            }
        };
        let (first, mut content) = fetch(self, name, true);
        assert_eq!(first.as_name().last().unwrap().as_segment(), Some(0));
        let versioned = first.as_name().without_last().to_name();
        assert!(versioned.as_name().last().unwrap().as_version().is_some());
        let last = self.final_block(&first);
        for number in 1..=last {
            let mut name = versioned.clone();
            name.push_segment(number);
            content.extend(fetch(self, &name, false).1);
        }
        (content, last + 1)
    }

    /// The number of the last segment, as the Data of this name says when it is asked for again.
    fn final_block(&mut self, name: &Name) -> u64 {
        let face = self.local();
        let mut frame = InterestBuilder::new(name).nonce(2).build();
        let _ = self
            .forwarder
            .on_packet(self.now, face, &mut frame, &mut self.outbox);
        let mut wire = Vec::new();
        for send in self.outbox.drain() {
            send.write_stream(&[], &mut wire);
        }
        self.forwarder.remove_face(face);
        Data::decode(&wire)
            .unwrap()
            .final_block_id
            .unwrap()
            .as_segment()
            .unwrap()
    }

    /// Lets time pass, as a host does: waking when the forwarder asked for it.
    pub fn pass(&mut self, span: Duration) -> Vec<Sent> {
        let until = self.now + span;
        let mut sent = Vec::new();
        while let Some(at) = self.forwarder.next_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.forwarder.on_timeout(self.now, &mut self.outbox);
            sent.extend(self.collect(&[]));
        }
        self.now = until;
        self.forwarder.check_invariants();
        sent
    }

    /// What was sent, with what management asked of the host put aside.
    pub fn collect(&mut self, frame: &[u8]) -> Vec<Sent> {
        self.requests.extend(self.outbox.drain_requests());
        let input = frame.get(self.outbox.input()).unwrap_or_default();
        let decode = |send: larder_forwarder::Send| {
            let mut wire = Vec::new();
            send.write_stream(input, &mut wire);
            let (packet, header) = decode(&wire);
            let token = header.pit_token.map(|token| token.as_bytes().to_vec());
            let LpHeader {
                congestion_mark: ban,
                interest_rate: rate,
                incoming_face,
                ..
            } = header;
            Sent {
                face: send.face,
                packet,
                token,
                ban,
                rate,
                incoming_face,
            }
        };
        self.outbox.drain().map(decode).collect()
    }
}

/// Each test also checks the forwarder's invariants at its end.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.forwarder.check_invariants();
        }
    }
}

/// Reads what was sent with the real decoders: whatever the forwarder sends must be well-formed.
fn decode(wire: &[u8]) -> (Packet, LpHeader) {
    let lp = LpPacket::decode(wire).expect("a well-formed frame");
    let packet = lp.fragment.expect("a packet in the frame");
    let packet = match (packet[0], lp.header.nack) {
        (5, nack) => {
            let interest = Interest::decode(packet).expect("a well-formed Interest");
            let (name, nonce) = (interest.name.to_name(), interest.nonce.expect("a nonce"));
            let hop_limit = interest.hop_limit;
            match nack {
                Some(reason) => Packet::Nack {
                    name,
                    nonce,
                    hop_limit,
                    reason,
                },
                None => Packet::Interest {
                    name,
                    nonce,
                    hop_limit,
                },
            }
        }
        (6, None) => {
            let data = Data::decode(packet).expect("well-formed Data");
            Packet::Data {
                name: data.name.to_name(),
                content: data.content.to_vec(),
            }
        }
        other => panic!("the forwarder sent {other:?}"),
    };
    (packet, lp.header)
}

pub fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

pub fn interest(name: &str, nonce: u32) -> InterestBuilder {
    InterestBuilder::new(name.parse::<Name>().unwrap()).nonce(nonce)
}

pub fn data(name: &str, content: &[u8], freshness: Option<Duration>) -> Vec<u8> {
    let name: Name = name.parse().unwrap();
    let builder = DataBuilder::new(name.as_name()).content(content);
    let builder = match freshness {
        Some(freshness) => builder.freshness(freshness),
        None => builder,
    };
    builder.build(&DigestSigner).unwrap()
}

pub fn nack(interest: &[u8], reason: NackReason) -> Vec<u8> {
    let mut out = Vec::new();
    encode_lp(
        &LpHeader {
            nack: Some(reason),
            ..LpHeader::default()
        },
        interest,
        &mut out,
    );
    out
}

/// The response to a command: the one thing that was sent.
pub fn response(sent: &[Sent], face: FaceId) -> ControlResponse {
    match sent {
        [
            Sent {
                face: to,
                packet: Packet::Data { content, .. },
                ..
            },
        ] if *to == face => ControlResponse::decode(content).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// A signed command as an application sends it; `nonce` tells it from others.
pub fn command(module: &str, verb: &str, parameters: &ControlParameters, nonce: u32) -> Vec<u8> {
    let mut name = name(&format!("/localhost/nfd/{module}/{verb}"));
    name.push_generic(&parameters.encode());
    let signature_nonce = nonce.to_be_bytes();
    let freshness = SignatureFreshness {
        nonce: Some(&signature_nonce),
        ..SignatureFreshness::default()
    };
    InterestBuilder::new(name)
        .nonce(nonce)
        .sign(&DigestSigner, freshness)
        .unwrap()
}

/// The faces that got something, in order.
pub fn faces(sent: &[Sent]) -> Vec<FaceId> {
    sent.iter().map(|sent| sent.face).collect()
}

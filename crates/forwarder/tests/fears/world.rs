//! One forwarder with its faces, and packets as the tests see them.

use larder_forwarder::{Config, DropReason, FaceConfig, FaceId, Forwarder, Outbox, Route};
use larder_packet::{
    Data, DataBuilder, DigestSigner, Interest, InterestBuilder, LpHeader, LpPacket, NackReason, Name, encode_lp,
};
use larder_policy::Engine;
use larder_units::{ByteSize, Streams, Time};
use std::time::Duration;

pub struct World {
    pub forwarder: Forwarder,
    pub now: Time,
    outbox: Outbox,
}

/// A packet that the forwarder sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Interest { name: Name, nonce: u32, hop_limit: Option<u8> },
    Data { name: Name, content: Vec<u8> },
    Nack { name: Name, nonce: u32, reason: NackReason },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub face: FaceId,
    pub packet: Packet,
    pub token: Option<Vec<u8>>,
    pub mark: Option<u64>,
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
        World { forwarder, now: Time::ZERO, outbox: Outbox::new() }
    }

    pub fn local(&mut self) -> FaceId {
        self.forwarder.add_face(FaceConfig::local("test"))
    }

    pub fn remote(&mut self) -> FaceId {
        self.forwarder.add_face(FaceConfig::remote("test"))
    }

    pub fn route(&mut self, prefix: &str, face: FaceId, cost: u64) {
        let route = Route { face, origin: 255, cost, flags: 1, expires: None };
        self.forwarder.add_route(&prefix.parse().unwrap(), route).unwrap();
    }

    /// Hands in a frame; what was sent, or why it was dropped (what was sent besides is lost then).
    pub fn frame(&mut self, face: FaceId, mut frame: Vec<u8>) -> Result<Vec<Sent>, DropReason> {
        let result = self.forwarder.on_packet(self.now, face, &mut frame, &mut self.outbox);
        let sent = self.collect(&frame);
        result.map(|()| sent).map_err(|dropped| dropped.reason)
    }

    /// Hands in a frame, whatever becomes of it.
    pub fn sent(&mut self, face: FaceId, mut frame: Vec<u8>) -> Vec<Sent> {
        let _ = self.forwarder.on_packet(self.now, face, &mut frame, &mut self.outbox);
        self.collect(&frame)
    }

    pub fn interest(&mut self, face: FaceId, name: &str, nonce: u32) -> Vec<Sent> {
        self.sent(face, interest(name, nonce).build())
    }

    pub fn data(&mut self, face: FaceId, name: &str) -> Vec<Sent> {
        self.sent(face, data(name, b"content", None))
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
        sent
    }

    fn collect(&mut self, frame: &[u8]) -> Vec<Sent> {
        let input = frame.get(self.outbox.input()).unwrap_or_default();
        let decode = |send: larder_forwarder::Send| {
            let mut wire = Vec::new();
            send.write_stream(input, &mut wire);
            let (packet, header) = decode(&wire);
            let token = header.pit_token.map(|token| token.as_bytes().to_vec());
            Sent { face: send.face, packet, token, mark: header.congestion_mark }
        };
        self.outbox.drain().map(decode).collect()
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
            match nack {
                Some(reason) => Packet::Nack { name, nonce, reason },
                None => Packet::Interest { name, nonce, hop_limit: interest.hop_limit },
            }
        }
        (6, None) => {
            let data = Data::decode(packet).expect("well-formed Data");
            Packet::Data { name: data.name.to_name(), content: data.content.to_vec() }
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
    encode_lp(&LpHeader { nack: Some(reason), ..LpHeader::default() }, interest, &mut out);
    out
}

/// The faces that got something, in order.
pub fn faces(sent: &[Sent]) -> Vec<FaceId> {
    sent.iter().map(|sent| sent.face).collect()
}

//! The packets that the forwarder gives to its host to send, each with its NDNLPv2 header. No
//! packet is copied.

use crate::control::shard_queries::ShardQuery;
use crate::drop_reason::Dropped;
use crate::face::{FaceId, Persistency};
use crate::tables::stored_packet::StoredPacket;
use bytes::Bytes;
use larder_packet::{FragmentError, Fragmenter, LpHeader, encode_lp};
use std::ops::Range;
use std::time::Duration;

/// The sends of one call, and what management wants of the host. The host owns it, drains it after
/// every call and uses it again.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) sends: Vec<Send>,
    pub(crate) requests: Vec<HostRequest>,
    /// The ranges of the network-layer packets in the frames of the last call.
    inputs: Vec<Range<usize>>,
    /// The number of processed frames.
    frames: usize,
    drops: Vec<(usize, Dropped)>,
    reassembled: Vec<(FaceId, Vec<u8>)>,
}

/// One packet to one face.
#[derive(Clone, Debug)]
pub struct Send {
    /// The face to which the packet is sent.
    pub face: FaceId,
    /// PIT token, Nack, congestion mark.
    pub header: LpHeader,
    /// The network-layer packet.
    pub body: Body,
    /// Which frame of the batch it came of, from 0.
    pub index: usize,
}

/// The place of the bytes of a network-layer packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// In the frame of this call, at [`Outbox::input`]. In a batch, in the frame with the number
    /// [`Send::index`], at [`Outbox::input_of`].
    Input,
    /// Reassembled, or made here.
    Stored(Bytes),
    /// In the Content Store.
    Cached(StoredPacket),
}

/// Work of management for the host, which owns the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Make a face, and tell what came of it by [`crate::Forwarder::on_face_answer`].
    CreateFace(FaceRequest),
    /// Close the face.
    DestroyFace(FaceId),
    /// The face's persistency, MTU, link reliability or congestion marking changed: see
    /// [`crate::Forwarder::face`].
    UpdateFace(FaceId),
    /// Make the second tier's erasure durable, and report it with [`crate::Forwarder::on_report`].
    SettleTier {
        /// The number to report with.
        ticket: u64,
    },
    /// Query another shard with [`crate::Forwarder::report`], and pass on its answer with
    /// [`crate::Forwarder::on_report`].
    Ask {
        /// The number to report with.
        ticket: u64,
        /// The number of the shard.
        shard: usize,
        /// The query.
        question: ShardQuery,
    },
}

/// The face that a `faces/create` wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceRequest {
    /// The number to report with.
    pub ticket: u64,
    /// The peer, as a FaceUri.
    pub uri: String,
    /// The FaceUri of this end, if the command names one.
    pub local_uri: Option<String>,
    /// The face's persistency.
    pub persistency: Persistency,
    /// The largest frame in bytes.
    pub mtu: Option<usize>,
    /// True if local fields are enabled.
    pub local_fields: bool,
    /// True if frames are acknowledged and sent again.
    pub link_reliability: bool,
    /// True if packets that join a long queue are marked.
    pub congestion_marking: bool,
    /// See [`crate::FaceConfig::base_congestion_marking_interval`].
    pub base_congestion_marking_interval: Option<Duration>,
    /// See [`crate::FaceConfig::default_congestion_threshold`].
    pub default_congestion_threshold: Option<u64>,
}

/// The result of a [`FaceRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaceAnswer {
    /// The face was made.
    Created(FaceId),
    /// A face to that peer was there.
    Exists(FaceId),
    /// It cannot be: status code (400, 406, 504…) and text of the response.
    Refused(u64, String),
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Outbox::default()
    }

    /// Takes the sends out, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Send> {
        self.sends.drain(..)
    }

    /// Takes the sends out in exchange for `others`, whose room is used for the next ones: so that
    /// [`Outbox::input_of`] can be asked meanwhile.
    pub fn swap(&mut self, others: &mut Vec<Send>) {
        std::mem::swap(&mut self.sends, others);
    }

    pub(crate) fn clear(&mut self) {
        self.sends.clear();
        self.requests.clear();
        self.inputs.clear();
        self.frames = 0;
        self.drops.clear();
        self.reassembled.clear();
    }

    pub(crate) fn reassemble(&mut self, face: FaceId, frame: Vec<u8>) {
        self.reassembled.push((face, frame));
    }

    /// Records that the packet of the current frame is at `input`.
    #[inline]
    pub(crate) fn next(&mut self, input: Range<usize>) {
        if self.inputs.len() < self.frames {
            self.inputs.resize(self.frames, 0..0);
        }
        self.inputs.push(input);
    }

    /// Records where the packets of the next frames are.
    #[inline]
    pub(crate) fn inputs_are<'a>(&mut self, inputs: impl Iterator<Item = &'a Range<usize>>) {
        self.inputs.resize(self.frames, 0..0);
        self.inputs.extend(inputs.cloned());
    }

    /// Adds a packet, and returns it so that the caller can set its header in place. The header is
    /// large, and usually remains empty.
    #[inline]
    pub(crate) fn push(&mut self, face: FaceId, body: Body) -> &mut LpHeader {
        let (at, index) = (self.sends.len(), self.frames);
        self.sends.extend(std::iter::once_with(|| Send {
            face,
            header: LpHeader::default(),
            body,
            index,
        }));
        &mut self.sends[at].header
    }

    #[inline]
    pub(crate) fn end_of_frame(&mut self, result: Result<(), Dropped>) {
        if let Err(dropped) = result {
            self.drops.push((self.frames, dropped));
        }
        self.frames += 1;
    }

    /// Which frames of a batch were dropped, and why: for the host's log. They have been counted,
    /// and their faces are none the worse.
    pub fn drops(&self) -> &[(usize, Dropped)] {
        &self.drops
    }

    /// Takes out the frames that were put together of pieces, with their faces. Only a shard of
    /// several has some: it knows their names now, and they may be another's. They are to be
    /// handled as frames of these faces, by whose they are.
    pub fn take_reassembled(&mut self) -> Vec<(FaceId, Vec<u8>)> {
        std::mem::take(&mut self.reassembled)
    }

    /// Takes out what management wants of the host.
    pub fn drain_requests(&mut self) -> std::vec::Drain<'_, HostRequest> {
        self.requests.drain(..)
    }

    /// The sends, in order.
    pub fn sends(&self) -> &[Send] {
        &self.sends
    }

    /// True where there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Returns the range of [`Body::Input`] in the frame.
    pub fn input(&self) -> Range<usize> {
        self.inputs.first().cloned().unwrap_or_default()
    }

    /// Returns the range of a send's [`Body::Input`] in the frame of its number.
    pub fn input_of(&self, send: &Send) -> Range<usize> {
        self.inputs.get(send.index).cloned().unwrap_or_default()
    }
}

impl Send {
    /// The network-layer packet; `input` is the packet of this call: the bytes handed in, cut to
    /// [`Outbox::input`].
    pub fn packet<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match &self.body {
            Body::Input => input,
            Body::Stored(bytes) => bytes,
            Body::Cached(packet) => packet,
        }
    }

    /// Appends the packet to a stream's buffer.
    pub fn write_stream(&self, input: &[u8], out: &mut Vec<u8>) {
        encode_lp(&self.header, self.packet(input), out);
    }

    /// Calls `frame` with each frame of at most `mtu` bytes; returns how many there were.
    ///
    /// # Errors
    /// [`FragmentError`] where the packet cannot be cut to this MTU; nothing has been sent then.
    pub fn write_frames(
        &self,
        input: &[u8],
        mtu: usize,
        fragmenter: &mut Fragmenter,
        frame: impl FnMut(&[u8]),
    ) -> Result<usize, FragmentError> {
        fragmenter.fragment(&self.header, self.packet(input), mtu, frame)
    }
}

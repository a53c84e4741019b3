//! What the forwarder hands to its host: packets to send, each with its NDNLPv2 header, none of
//! them copied.

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
    /// Where the network-layer packets stand in the frames of the last call.
    inputs: Vec<Range<usize>>,
    /// How many of these frames are done with.
    frames: usize,
    drops: Vec<(usize, Dropped)>,
    reassembled: Vec<(FaceId, Vec<u8>)>,
}

/// One packet to one face.
#[derive(Clone, Debug)]
pub struct Send {
    /// Where to.
    pub face: FaceId,
    /// PIT token, Nack, congestion mark.
    pub header: LpHeader,
    /// The network-layer packet.
    pub body: Body,
    /// Which frame of the batch it came of, from 0.
    pub index: usize,
}

/// Where the bytes of a network-layer packet are.
#[derive(Clone, Debug)]
pub enum Body {
    /// In the frame that was just handed in, at [`Outbox::input`]; of a batch, in the frame with
    /// number [`Send::index`], at [`Outbox::input_of`].
    Input,
    /// Reassembled, or made here.
    Stored(Bytes),
    /// In the Content Store.
    Cached(StoredPacket),
}

/// What management wants done that only the host can do: it owns the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Make a face, and tell what came of it by [`crate::Forwarder::on_face_answer`].
    CreateFace(FaceRequest),
    /// Close the face.
    DestroyFace(FaceId),
    /// The face's persistency, MTU, link reliability or congestion marking changed: see
    /// [`crate::Forwarder::face`].
    UpdateFace(FaceId),
    /// Wait until what was erased of the second tier cannot come back, and tell by
    /// [`crate::Forwarder::on_report`].
    SettleTier {
        /// What the answer is given with.
        ticket: u64,
    },
    /// Ask another shard, by [`crate::Forwarder::report`], and tell what it said by
    /// [`crate::Forwarder::on_report`].
    Ask {
        /// What the answer is given with.
        ticket: u64,
        /// The number of the shard.
        shard: usize,
        /// What is asked.
        question: ShardQuery,
    },
}

/// The face that a `faces/create` wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaceRequest {
    /// What the answer is given with.
    pub ticket: u64,
    /// The peer, as a FaceUri.
    pub uri: String,
    /// This end, as a FaceUri, where it matters.
    pub local_uri: Option<String>,
    /// How long it is to live.
    pub persistency: Persistency,
    /// The largest frame in bytes.
    pub mtu: Option<usize>,
    /// Whether local fields are to pass.
    pub local_fields: bool,
    /// Whether frames are to be acknowledged and sent again.
    pub link_reliability: bool,
    /// Whether packets that come to a long queue are to be marked.
    pub congestion_marking: bool,
    /// See [`crate::FaceConfig::base_congestion_marking_interval`].
    pub base_congestion_marking_interval: Option<Duration>,
    /// See [`crate::FaceConfig::default_congestion_threshold`].
    pub default_congestion_threshold: Option<u64>,
}

/// What came of a [`FaceRequest`].
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

    /// The packet of the frame that is being handled stands at `input`.
    #[inline]
    pub(crate) fn next(&mut self, input: Range<usize>) {
        if self.inputs.len() < self.frames {
            self.inputs.resize(self.frames, 0..0);
        }
        self.inputs.push(input);
    }

    /// One packet more to send; its header is empty, to be filled in where it stands: it is large,
    /// and seldom anything else.
    #[inline]
    pub(crate) fn push(&mut self, face: FaceId, body: Body) -> &mut LpHeader {
        let (at, index) = (self.sends.len(), self.frames);
        self.sends.extend(std::iter::once_with(|| Send { face, header: LpHeader::default(), body, index }));
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

    /// Where [`Body::Input`] stands in the bytes that were handed in.
    pub fn input(&self) -> Range<usize> {
        self.inputs.first().cloned().unwrap_or_default()
    }

    /// Where the [`Body::Input`] of a send stands in the frame of its number.
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

//! What the forwarder hands to its host: packets to send, each with its NDNLPv2 header, none of them copied.

use crate::face::FaceId;
use bytes::Bytes;
use larder_packet::{FragmentError, Fragmenter, LpHeader, encode_lp};
use std::ops::Range;

/// The sends of one call. The host owns it, drains it after every call and uses it again.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) sends: Vec<Send>,
    /// Where the network-layer packet stands in the bytes of the last call.
    pub(crate) input: Range<usize>,
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
}

/// Where the bytes of a network-layer packet are.
#[derive(Clone, Debug)]
pub enum Body {
    /// In the packet that was just handed in, at [`Outbox::input`].
    Input,
    /// In the Content Store, reassembled, or made here.
    Stored(Bytes),
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
        self.input.clone()
    }
}

impl Send {
    /// The network-layer packet; `input` is the packet of this call: the bytes handed in, cut to [`Outbox::input`].
    pub fn packet<'a>(&'a self, input: &'a [u8]) -> &'a [u8] {
        match &self.body {
            Body::Input => input,
            Body::Stored(bytes) => bytes,
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

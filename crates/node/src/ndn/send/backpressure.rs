//! Backpressure: the node reads an application only while its queue is short.
//!
//! A consumer with a large window writes its Interests when it has nothing to read, hundreds at
//! once. One read of 64 KiB may bring a thousand, and the Content Store answers them with 8 MB, far
//! more than a reader takes at once. When a face's queue is long, the node holds the rest
//! of the face's input, and does not read its socket until half of the queue has left. Further
//! Interests then wait in the application, which measures longer round trips. Nothing is dropped.
//!
//! This applies to faces that applications on this machine have opened. Two forwarders that wait
//! for each other could wait for ever; here only the one that accepted the connection waits. An
//! application that writes and does not read is read again after [`limits::BACKPRESSURE_STALL`]: it
//! may wait for room to write, or the system may have stopped it. What does not fit its queue then
//! is dropped. The queue is long ([`limits::APPLICATION_QUEUE_BYTES`]), so that a consumer that was
//! stopped finds all that it asked for.

use larder_packet::tlv;
use larder_units::Time;

/// The state of a face that is not read.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Whole frames that were read before the pause, back to back.
    pub(crate) frames: Vec<u8>,
    /// The last time at which the face was seen to take something, and the bytes taken until then.
    pub(crate) since: Time,
    pub(crate) taken: u64,
}

impl Pause {
    pub(crate) fn held(&self) -> usize {
        self.frames.len()
    }
}

/// Splits bytes into whole frames.
pub(crate) fn whole_frames(mut bytes: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    std::iter::from_fn(move || {
        let length = tlv::frame(bytes, usize::MAX).ok()??;
        let (first, rest) = std::mem::take(&mut bytes).split_at_mut(length);
        bytes = rest;
        Some(first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_frames_are_lost_or_cut() {
        let mut bytes = [vec![5, 1, 7], vec![6, 0], vec![5, 2, 8, 9]].concat();
        let frames: Vec<Vec<u8>> = whole_frames(&mut bytes)
            .map(|frame| frame.to_vec())
            .collect();
        assert_eq!(frames, [vec![5, 1, 7], vec![6, 0], vec![5, 2, 8, 9]]);
        assert_eq!(whole_frames(&mut []).count(), 0);
    }
}

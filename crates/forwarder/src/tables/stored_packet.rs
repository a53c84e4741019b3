//! Reusable buffers of stored packets, shared between the Content Store and the packets that are
//! being sent.
//!
//! A packet's reference count is in front of its bytes, so a hit reads one place in memory. A full
//! store inserts one packet for each evicted one: the buffers are reused in classes of 64 bytes,
//! and nothing is allocated. If a host passes shared bytes, as a simulator of many nodes does, they
//! are stored without a copy; such buffers are not reused.

use crate::limits::SPARE_BUFFER_BYTES;
use larder_policy::prefetch;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The bytes of a packet in the Content Store. A copy shares them, and keeps them when the packet
/// leaves the store.
#[derive(Clone)]
pub struct StoredPacket {
    /// A whole number of [`CLASS_BYTES`], unless the host has made it.
    buffer: Arc<[u8]>,
    length: u32,
    /// It may be in other stores too: it is not used again.
    is_shared: bool,
}

impl StoredPacket {
    /// Copies a packet into shared bytes, for [`crate::Forwarder::on_shared`]. All holders share
    /// the one copy.
    pub fn share(packet: &[u8]) -> StoredPacket {
        StoredPacket {
            buffer: Arc::from(packet),
            length: packet.len() as u32,
            is_shared: true,
        }
    }

    /// The packet will be sent soon: begins to load both its ends, for a copy of this length reads
    /// the last bytes first. What lies between, the processor loads by itself.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let end = self.length as usize;
        for line in 0..PREFETCHED_LINES {
            prefetch(&self.buffer, line * CLASS_BYTES);
            prefetch(&self.buffer, end.saturating_sub(1 + line * CLASS_BYTES));
        }
    }

    /// Another packet will be written in its place soon: begins to load all its lines.
    pub(crate) fn prefetch_whole(&self) {
        for line in 0..self.buffer.len() / CLASS_BYTES {
            prefetch(&self.buffer, line * CLASS_BYTES);
        }
    }
}

impl Deref for StoredPacket {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.buffer[..self.length as usize]
    }
}

impl fmt::Debug for StoredPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.length)
    }
}

const CLASS_BYTES: usize = 64;
const PREFETCHED_LINES: usize = 4;

/// Buffers that wait for a packet.
#[derive(Default)]
pub(crate) struct Spare {
    /// By their lengths in units of [`CLASS_BYTES`].
    classes: Vec<Vec<Arc<[u8]>>>,
    bytes: usize,
    /// The packet that is being processed, if the host shares it.
    offered: Option<StoredPacket>,
}

impl Spare {
    /// Until it is taken back, storing these bytes takes no copy.
    pub(crate) fn offer(&mut self, packet: Option<StoredPacket>) {
        self.offered = packet.map(|packet| StoredPacket {
            is_shared: true,
            ..packet
        });
    }

    /// Returns the shared packet itself, or a copy in a spare or new buffer.
    pub(crate) fn store(&mut self, packet: &[u8]) -> StoredPacket {
        if let Some(offered) = self
            .offered
            .as_ref()
            .filter(|offered| std::ptr::eq::<[u8]>(&***offered, packet))
        {
            return offered.clone();
        }
        let class = packet.len().div_ceil(CLASS_BYTES);
        let length = packet.len() as u32;
        while let Some(mut buffer) = self.classes.get_mut(class).and_then(Vec::pop) {
            self.bytes -= buffer.len();
            // A copy that is still in use keeps the buffer.
            if let Some(bytes) = Arc::get_mut(&mut buffer) {
                bytes[..packet.len()].copy_from_slice(packet);
                return StoredPacket {
                    buffer,
                    length,
                    is_shared: false,
                };
            }
        }
        let mut buffer = Arc::<[u8]>::from_iter(std::iter::repeat_n(0, class * CLASS_BYTES));
        if let Some(bytes) = Arc::get_mut(&mut buffer) {
            bytes[..packet.len()].copy_from_slice(packet);
        }
        StoredPacket {
            buffer,
            length,
            is_shared: false,
        }
    }

    /// The packet is not needed any more.
    pub(crate) fn put(&mut self, packet: StoredPacket) {
        let class = packet.buffer.len() / CLASS_BYTES;
        if packet.is_shared || self.bytes + packet.buffer.len() > SPARE_BUFFER_BYTES {
            return;
        }
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Vec::new);
        }
        self.bytes += packet.buffer.len();
        self.classes[class].push(packet.buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_on_its_way_out_is_overwritten() {
        let mut spare = Spare::default();
        let first = spare.store(b"first");
        let (on_its_way, where_it_stands) = (first.clone(), first.as_ptr());
        spare.put(first);
        let second = spare.store(b"second");
        assert_eq!((&*on_its_way, &*second), (&b"first"[..], &b"second"[..]));
        drop(on_its_way);
        let third = spare.store(b"third");
        assert_eq!(&*third, b"third");
        let freed = second.as_ptr();
        assert_eq!(spare.bytes, 0);
        spare.put(second);
        assert_eq!(spare.bytes, CLASS_BYTES);
        let fourth = spare.store(b"4");
        assert_eq!(spare.bytes, 0);
        assert_eq!(
            (&*fourth, fourth.as_ptr()),
            (&b"4"[..], freed),
            "used again"
        );
        assert_ne!(where_it_stands, freed);
    }

    #[test]
    fn a_shared_packet_is_copied_or_overwritten() {
        let (mut here, mut there) = (Spare::default(), Spare::default());
        let packet = StoredPacket::share(&[7; 1000]);
        here.offer(Some(packet.clone()));
        let stored = here.store(&packet);
        here.offer(None);
        assert_eq!(stored.as_ptr(), packet.as_ptr());
        here.put(stored);
        assert_eq!(here.bytes, 0, "it is not used again");
        assert_ne!(here.store(&[8; 1000]).as_ptr(), packet.as_ptr());
        // What one store has for itself, and another is offered.
        let own = here.store(&[9; 1000]);
        there.offer(Some(own.clone()));
        let shared = there.store(&own);
        assert_ne!(
            there.store(&[9; 1000]).as_ptr(),
            own.as_ptr(),
            "other bytes that look alike"
        );
        there.put(shared.clone());
        assert_eq!(there.bytes, 0, "it may be in other stores");
        here.put(own);
        assert_ne!(here.store(&[1; 1000]).as_ptr(), shared.as_ptr());
        assert_eq!((&*shared, &*packet), (&[9; 1000][..], &[7; 1000][..]));
    }

    #[test]
    fn a_burst_of_evictions_is_kept_for_ever() {
        let mut spare = Spare::default();
        let packets: Vec<StoredPacket> = (0..2000).map(|_| spare.store(&[1; 8000])).collect();
        for packet in packets {
            spare.put(packet);
        }
        assert!(spare.bytes <= SPARE_BUFFER_BYTES && spare.bytes > SPARE_BUFFER_BYTES - 10_000);
        let mut spare = Spare::default();
        let packets: Vec<StoredPacket> = (0..1025).map(|_| spare.store(&[1; 1024])).collect();
        for packet in packets {
            spare.put(packet);
        }
        assert_eq!(spare.bytes, SPARE_BUFFER_BYTES);
    }
}

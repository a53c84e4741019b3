//! One signature for a whole object: a tree of digests over its segments, with its root in the
//! signed metadata.
//!
//! Source: R. Merkle, "A Digital Signature Based on a Conventional Encryption Function" (CRYPTO
//! '87), with many children per node and not two. A node is a packet
//! `<version>/32=manifest/seg=<i>`. Its content is the implicit digests (SHA-256 of the whole
//! packet) of its children, one after the other.
//!
//! The nodes are numbered level by level, as in a heap. 0 is the root, and the children of node n
//! are n·f+1 to n·f+f, where f is the fan-out. The first `packets` nodes are the manifest's
//! packets; all others are the segments in order. Every position is thus arithmetic, and a consumer
//! that reads the packets in order knows each digest before its packet arrives. A wrong packet is
//! found on arrival, as a wrong signature would be.
//!
//! Cost: 32 bytes per segment at both ends, and one packet in f on the network (f is 249 for
//! segments of 8000 bytes). A consumer hashes each packet once, as for a digest signature. This is
//! not NDN's FLIC, whose manifests are larger and have groups, sizes and encryption, which are not
//! needed here.

use crate::limits::MAX_MANIFEST_SEGMENTS;
use larder_packet::Data;
use std::ops::Range;

/// The most digests in a packet of a manifest: 8000 bytes, the default segment.
const LARGEST_FAN_OUT: u64 = 250;

/// The keyword component of a manifest's names.
pub(crate) const MANIFEST_KEYWORD: &[u8] = b"manifest";

/// The implicit digest of a packet.
pub type Digest = [u8; DIGEST_BYTES];

/// The length of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;

/// The manifest as named by the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestRoot {
    /// The implicit digest of the manifest's packet 0.
    pub digest: Digest,
    /// The digests in every packet of the manifest but the last.
    pub fan_out: u64,
}

/// The shape of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    segments: u64,
    fan_out: u64,
}

impl Tree {
    /// Returns the tree over this many segments; `None` for an empty tree, or one larger than
    /// [`MAX_MANIFEST_SEGMENTS`] allows.
    pub(crate) fn new(segments: u64, fan_out: u64) -> Option<Tree> {
        let fits = (1..=MAX_MANIFEST_SEGMENTS).contains(&segments)
            && (2..=LARGEST_FAN_OUT).contains(&fan_out);
        fits.then_some(Tree { segments, fan_out })
    }

    /// Returns the fan-out at which a manifest's packet is no larger than a segment. 32 bytes are
    /// reserved for its longer name.
    pub(crate) fn fan_out(segment_bytes: usize) -> u64 {
        ((segment_bytes / DIGEST_BYTES) as u64)
            .saturating_sub(1)
            .clamp(2, LARGEST_FAN_OUT)
    }

    /// Returns the number of packets of the manifest.
    pub(crate) fn packets(&self) -> u64 {
        (self.segments - 1).div_ceil(self.fan_out - 1).max(1)
    }

    fn nodes(&self) -> u64 {
        self.packets() + self.segments
    }

    /// Returns the nodes whose digests this packet contains.
    fn children(&self, packet: u64) -> Range<u64> {
        let first = packet * self.fan_out + 1;
        first..(first + self.fan_out).min(self.nodes())
    }
}

/// A producer's tree, with all digests.
pub(crate) struct Manifest {
    tree: Tree,
    digests: Vec<Digest>,
}

impl Manifest {
    /// Creates a tree of this shape without digests.
    pub(crate) fn new(tree: Tree) -> Self {
        Manifest {
            tree,
            digests: vec![[0; DIGEST_BYTES]; tree.nodes() as usize],
        }
    }

    /// Returns the shape.
    pub(crate) fn tree(&self) -> Tree {
        self.tree
    }

    /// Returns the root for the metadata, once all digests are recorded.
    pub(crate) fn root(&self) -> ManifestRoot {
        ManifestRoot {
            digest: self.digests[0],
            fan_out: self.tree.fan_out,
        }
    }

    /// Records the digest of a segment's packet.
    pub(crate) fn record_segment(&mut self, segment: u64, packet: &Data<'_>) {
        self.record(self.tree.packets() + segment, packet);
    }

    /// Records the digest of a packet of the manifest; the last packet comes first.
    pub(crate) fn record_packet(&mut self, number: u64, packet: &Data<'_>) {
        self.record(number, packet);
    }

    fn record(&mut self, node: u64, packet: &Data<'_>) {
        self.digests[node as usize] = packet.implicit_digest();
    }

    /// Returns the content of a packet of the manifest.
    pub(crate) fn content(&self, packet: u64) -> &[u8] {
        let Range { start, end } = self.tree.children(packet);
        self.digests[start as usize..end as usize].as_flattened()
    }
}

/// A consumer's tree, with the digests known so far.
pub(crate) struct KnownDigests {
    tree: Tree,
    /// The digests of the first nodes.
    digests: Vec<Digest>,
}

impl KnownDigests {
    /// Creates a tree of which only the root is known.
    pub(crate) fn new(tree: Tree, root: Digest) -> Self {
        KnownDigests {
            tree,
            digests: vec![root],
        }
    }

    /// Returns the last packet of the manifest whose digest is known.
    pub(crate) fn last_known_packet(&self) -> u64 {
        (self.digests.len() as u64).min(self.tree.packets()) - 1
    }

    /// Returns true if every segment's digest is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.digests.len() as u64 == self.tree.nodes()
    }

    /// Returns the digest of a packet of the manifest.
    pub(crate) fn of_packet(&self, packet: u64) -> Option<&Digest> {
        self.digests
            .get(usize::try_from(packet).ok()?)
            .filter(|_| packet < self.tree.packets())
    }

    /// Returns the digest of a segment.
    pub(crate) fn of_segment(&self, segment: u64) -> Option<&Digest> {
        self.digests
            .get(usize::try_from(self.tree.packets().checked_add(segment)?).ok()?)
    }

    /// Returns true if this packet's content has the length of its digests.
    pub(crate) fn is_content(&self, packet: u64, content: &[u8]) -> bool {
        let Range { start, end } = self.tree.children(packet);
        content.len() as u64 == end.saturating_sub(start) * DIGEST_BYTES as u64
    }

    /// Records the content of the next packet, which has the right length.
    pub(crate) fn extend(&mut self, content: &[u8]) {
        self.digests.extend_from_slice(content.as_chunks().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_node_but_the_root_has_one_parent(segments in 1u64..3000, fan_out in 2u64..=LARGEST_FAN_OUT) {
            let tree = Tree::new(segments, fan_out).unwrap();
            let mut next = 1;
            for packet in 0..tree.packets() {
                let children = tree.children(packet);
                prop_assert_eq!(children.start, next);
                prop_assert!(packet < children.start, "a parent comes before its children");
                prop_assert!(!children.is_empty());
                next = children.end;
            }
            prop_assert_eq!(next, tree.nodes());
        }

        #[test]
        fn no_announced_shape_panics_or_takes_more_memory_than_its_limit(segments: u64, fan_out: u64, packet: u64) {
            if let Some(tree) = Tree::new(segments, fan_out) {
                prop_assert!(tree.nodes() <= 2 * MAX_MANIFEST_SEGMENTS);
                let known = KnownDigests::new(tree, [0; DIGEST_BYTES]);
                prop_assert_eq!(known.last_known_packet(), 0);
                prop_assert_eq!(known.of_packet(packet).is_some(), packet == 0);
                prop_assert_eq!(known.of_segment(packet), None);
            }
        }
    }

    #[test]
    fn the_usual_segment_makes_a_manifest_of_one_packet_in_250() {
        let tree = Tree::new(12_500, Tree::fan_out(8000)).unwrap();
        assert_eq!((tree.fan_out, tree.packets()), (249, 51));
        assert_eq!(Tree::new(1, 249).unwrap().packets(), 1);
        assert_eq!(Tree::new(249, 249).unwrap().packets(), 1);
        assert_eq!(Tree::new(250, 249).unwrap().packets(), 2);
        assert_eq!(Tree::fan_out(0), 2);
    }
}

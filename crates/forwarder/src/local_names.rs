//! Names that do not leave this node or this link.

use larder_packet::NameRef;

/// Returns true for a name that is local to this node: under `/localhost`.
#[inline]
pub(crate) fn is_localhost(name: NameRef<'_>) -> bool {
    may_be_local(name) && name.as_bytes().first_chunk() == Some(b"\x08\x09localhost")
}

/// Returns true for a name that is local to this link: under `/localhop`.
#[inline]
pub(crate) fn is_localhop(name: NameRef<'_>) -> bool {
    may_be_local(name) && name.as_bytes().first_chunk() == Some(b"\x08\x08localhop")
}

/// Returns false for nearly all other names, by one byte.
#[inline]
fn may_be_local(name: NameRef<'_>) -> bool {
    name.as_bytes().get(2) == Some(&b'l')
}

/// Returns true if the name is one of the routing daemon's on this machine: `/localhost/nlsr/…`,
/// of which the forwarder sends commands.
pub(crate) fn is_routing_daemon(name: NameRef<'_>) -> bool {
    is_localhost(name) && name.component(1).is_some_and(|c| c.value == b"nlsr")
}

/// Returns true if the name is one of the forwarder's own: `/localhost/nfd/…` or `/localhop/nfd/…`.
pub(crate) fn is_management(name: NameRef<'_>) -> bool {
    (is_localhost(name) || is_localhop(name))
        && name.component(1).is_some_and(|c| c.value == b"nfd")
}

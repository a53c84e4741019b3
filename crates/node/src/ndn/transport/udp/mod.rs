//! UDP: the sockets of all threads at one address, and their peers.

pub(crate) mod datagram;
pub(crate) mod group;
pub(crate) mod path_mtu;
pub(crate) mod peer;
pub(crate) mod steering;

//! Sockets and their queues: one file for each kind of face, which implements the trait of `kind`,
//! and what they share.
//!
//! `stream` (with `unix_socket`) and `websocket` have connections; `udp` has one socket for all
//! peers, `multicast` the groups, and `ethernet` the packet sockets. `frames` is the queue of the
//! last three. `listen` and `new_listeners` bind what others connect to; `listeners` has it while
//! it runs.

pub(crate) mod codel;
pub(crate) mod ethernet;
pub(crate) mod frames;
pub(crate) mod interfaces;
pub(crate) mod kind;
pub(crate) mod listen;
pub(crate) mod listeners;
pub(crate) mod multicast;
pub(crate) mod new_listeners;
pub(crate) mod packet_socket;
pub(crate) mod reading;
pub(crate) mod spare_buffers;
pub(crate) mod stream;
pub(crate) mod udp;
pub(crate) mod unix_socket;
pub(crate) mod websocket;

//! The threads among themselves: their messages, and the queues between them.

pub(crate) mod batch;
pub(crate) mod channel;
pub(crate) mod command;

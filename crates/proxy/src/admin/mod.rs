//! The admin server, and its console.

pub(crate) mod admin_reply;
pub(crate) mod console;
pub(crate) mod purge;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod token;

//! The admin server, what its clients read and change of the HTTP cache, and trials for operators.

pub(crate) mod apply;
pub(crate) mod certificates;
pub(crate) mod lookup;
pub(crate) mod managed_cache;
pub(crate) mod purge;
pub(crate) mod purger;
pub(crate) mod reach;
pub(crate) mod server;
pub(crate) mod status;

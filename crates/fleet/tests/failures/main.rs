//! Failures of a node that follows the purge log, each in a module of its name.

mod accepted_purge_lost;
mod false_proof;
mod memory_without_bound;
mod stale_responses;
mod unconfirmed_purges;
mod unreadable_messages;
mod wrong_owner;

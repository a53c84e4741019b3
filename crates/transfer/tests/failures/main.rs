//! Failures between a consumer and a producer, one per file.

mod forged_segments;
mod hostile_producer;
mod link;
mod lossy_hop;
mod lost_bytes;
mod mixed_versions;
mod starved_hop;
mod starved_link;
mod wrong_answers;

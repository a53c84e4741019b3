//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod a_dataset_that_nfdc_refuses;
mod a_link_packet_that_nfd_refuses;
mod a_reliable_link_loses;
mod bad_bytes_panic;
mod fields_lost_on_the_way;
mod forged_signature_accepted;
mod fragments_mixed_up;
mod generators;
mod inner_length_past_the_end;
mod names_out_of_order;
mod unknown_critical_accepted;

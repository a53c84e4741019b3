//! `status/general` (NFD wiki, "Forwarder Status").

use super::managed_forwarder::ManagedForwarder;
use super::{Content, Refusal};
use larder_packet::NameRef;
use larder_packet::mgmt::ForwarderStatus;
use larder_units::Time;

/// The version that NFD's clients show as the version of NFD.
const VERSION: &str = concat!("larder-", env!("CARGO_PKG_VERSION"));

pub(super) fn general(
    forwarder: &ManagedForwarder<'_>,
    now: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    let stats = forwarder.stats();
    content.push_fields(&ForwarderStatus {
        version: VERSION.to_owned(),
        start_timestamp_ms: forwarder.unix_millis(Time::ZERO),
        current_timestamp_ms: forwarder.unix_millis(now),
        // NFD's name tree has an entry for each entry of the tables above it.
        name_tree_entries: (stats.fib_entries + stats.pit_entries) as u64,
        fib_entries: stats.fib_entries as u64,
        pit_entries: stats.pit_entries as u64,
        measurements_entries: 0,
        cs_entries: stats.content_store_entries as u64,
        in_interests: stats.packets.in_interests,
        in_data: stats.packets.in_data,
        in_nacks: stats.packets.in_nacks,
        out_interests: stats.packets.out_interests,
        out_data: stats.packets.out_data,
        out_nacks: stats.packets.out_nacks,
        satisfied_interests: stats.satisfied,
        unsatisfied_interests: stats.unsatisfied,
        configuration: forwarder.configuration().map(str::to_owned),
    });
    Ok(())
}

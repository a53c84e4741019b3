//! What became of a run: a value for each quantity of each component.

use super::build::Built;
use crate::apps::{Cbr, Fetch};
use crate::{ChannelId, NodeId, Simulation};
use larder_units::Time;

/// One value of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// `cbr c0 /p0`, `fetch c0 /file`, `node r1`, `channel r1 r2`.
    pub component: String,
    /// What was measured, such as `data` or `hit ratio`.
    pub quantity: &'static str,
    /// Its unit; empty for counts and ratios.
    pub unit: &'static str,
    /// The value; NaN where there is none, such as the delay of no Data.
    pub value: f64,
}

pub(super) fn figures(built: &Built, end: Time) -> Vec<Figure> {
    let network = &built.network;
    let mut all = Vec::new();
    for (label, app) in &built.consumers {
        let figures = match (network.app::<Cbr>(*app), network.app::<Fetch>(*app)) {
            (Some(consumer), _) => of_cbr(consumer, end),
            (_, Some(fetch)) => of_fetch(fetch, end),
            _ => Vec::new(),
        };
        all.extend(named(label, figures));
    }
    for node in network.nodes() {
        all.extend(named(&format!("node {}", network.node_name(node)), of_node(network, node, end)));
    }
    for (id, channel) in network.channels() {
        let (from, to) = channel.ends();
        let label = format!("channel {} {}", network.node_name(from), network.node_name(to));
        all.extend(named(&label, of_channel(network, id, end)));
    }
    all
}

type Value = (&'static str, &'static str, f64);

fn named(component: &str, values: Vec<Value>) -> impl Iterator<Item = Figure> {
    values.into_iter().map(move |(quantity, unit, value)| Figure {
        component: component.to_owned(),
        quantity,
        unit,
        value,
    })
}

fn of_cbr(consumer: &Cbr, end: Time) -> Vec<Value> {
    let counters = consumer.counters();
    let data = counters.data as f64;
    vec![
        ("interests", "", counters.interests as f64),
        ("data", "", data),
        ("answered", "", data / counters.interests as f64),
        ("goodput", "Mbps", mbps(counters.bytes, end)),
        ("delay", "ms", counters.full_delay / data * 1e3),
        ("retransmissions", "", counters.retransmissions as f64),
        ("timeouts", "", counters.timeouts as f64),
        ("nacks", "", counters.nacks as f64),
        ("marks", "", counters.marks as f64),
    ]
}

fn of_fetch(fetch: &Fetch, end: Time) -> Vec<Value> {
    let stats = fetch.stats();
    let (start, finished) = fetch.span();
    let took = finished.unwrap_or(end).since(start).as_secs_f64();
    let done = fetch.progress() == larder_transfer::Progress::Done;
    vec![
        ("interests", "", stats.interests as f64),
        ("data", "", stats.segments as f64),
        ("done", "", f64::from(u8::from(done))),
        ("goodput", "Mbps", stats.bytes as f64 * 8.0 / 1e6 / took),
        ("time", "s", if done { took } else { f64::NAN }),
        ("retransmissions", "", stats.retransmissions as f64),
        ("timeouts", "", stats.time_outs as f64),
        ("nacks", "", stats.nacks as f64),
        ("marks", "", stats.marks as f64),
    ]
}

fn of_node(network: &Simulation, node: NodeId, end: Time) -> Vec<Value> {
    let forwarder = network.forwarder(node);
    let stats = forwarder.stats();
    let store = stats.content_store;
    let evicted = store.evicted_ages.as_secs_f64();
    let ages: f64 = forwarder.ages_of_stored(end).map(|age| age.as_secs_f64()).sum();
    let stored = stats.content_store_entries as f64;
    vec![
        ("interests", "", stats.packets.in_interests as f64),
        ("hits", "", store.hits as f64),
        // Of all Interests, those that joined a pending one included: ndnSIM's CsTracer. NFD divides by its look-ups.
        ("hit ratio", "", store.hits as f64 / stats.packets.in_interests as f64),
        ("hit ratio of lookups", "", store.hits as f64 / (store.hits + store.misses) as f64),
        ("stored", "", stored),
        ("evictions", "", store.evictions as f64),
        ("lifetime of evicted", "s", evicted / store.evictions as f64),
        ("lifetime with survivors", "s", (evicted + ages) / (store.evictions as f64 + stored)),
        ("pending", "", stats.pit_entries as f64),
        ("unsatisfied", "", stats.unsatisfied as f64),
        ("drops", "", stats.drops.iter().map(|(_, count)| count).sum::<u64>() as f64),
        ("missed", "", network.missed(node) as f64),
    ]
}

fn of_channel(network: &Simulation, id: ChannelId, end: Time) -> Vec<Value> {
    let channel = network.channel(id);
    let counters = channel.counters();
    let rate = channel.config().rate.map_or(f64::NAN, |rate| rate.bits_per_second() as f64 / 1e6);
    let used = mbps(counters.bytes, end);
    vec![
        ("frames", "", counters.frames as f64),
        ("rate", "Mbps", used),
        ("utilisation", "", used / rate),
        ("dropped", "", counters.dropped as f64),
        ("marked", "", counters.marked as f64),
        ("lost", "", counters.lost as f64),
    ]
}

fn mbps(bytes: u64, end: Time) -> f64 {
    bytes as f64 * 8.0 / 1e6 / end.as_secs_f64()
}

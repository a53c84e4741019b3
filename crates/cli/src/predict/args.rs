//! The arguments of `larder predict`.

use crate::layout::Layout;
use crate::numbers::count;
use clap::Args;
use larder_units::ByteSize;
use std::path::PathBuf;

/// Predict hit ratios of caches with analytic models, from a Zipf law or from a trace
///
/// The models (FIFO and Random, Che's for LRU, equations 3 to 7 of the Filter paper, AdaptSize's,
/// and the best fixed set) assume independent requests, with the popularity of a Zipf law or of the
/// trace. With --replay, the hit ratios of the policies themselves are printed beside them.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder predict --zipf 0.8 --objects 1e7 --size 1e5,1e6 --replay")]
pub struct PredictArgs {
    /// Trace file, whose popularity and sizes are measured; - is standard input. The alternative is
    /// --zipf
    #[arg(required_unless_present = "zipf", conflicts_with = "zipf")]
    pub(super) trace: Option<PathBuf>,

    /// Exponent of a Zipf law
    #[arg(long, value_name = "EXPONENT", requires = "objects")]
    pub(super) zipf: Option<f64>,

    /// Objects of the Zipf law; 1e7 is accepted
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = count)]
    pub(super) objects: Option<u64>,

    /// Bytes of each object of the Zipf law
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1B",
        conflicts_with = "trace"
    )]
    pub(super) object_size: ByteSize,

    /// Capacities: bytes (64MiB), objects if they have no sizes (1000), or a share of all objects
    /// (10% or 0.1)
    #[arg(
        long,
        short,
        value_name = "SIZE,…",
        required = true,
        allow_negative_numbers = true
    )]
    pub(super) size: Vec<String>,

    /// Filter: requests in the history that admit an object, including the current one
    #[arg(long, value_name = "REQUESTS", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) theta: u16,

    /// Filter: length of the history [default: the objects that fit into the cache, at most 2^24
    /// and the table's slots]
    #[arg(long, value_name = "REQUESTS", value_parser = count)]
    pub(super) window: Option<u64>,

    /// Filter: slots of the counter table, a power of two
    #[arg(long, value_name = "SLOTS", value_parser = count, default_value_t = 1 << 24)]
    pub(super) table: u64,

    /// Also predict LRU behind admission by size: `threshold(c=SIZE)` and `expsize(c=SIZE)`
    #[arg(long, value_name = "SIZE")]
    pub(super) admit: Option<ByteSize>,

    /// Also replay the trace, or requests of the law; the first half of these warms up and is not
    /// counted. The admission policy is asked for every object, as the models assume
    #[arg(long)]
    pub(super) replay: bool,

    /// Requests of the law to replay, or the most to read of the trace
    #[arg(long, value_name = "N", value_parser = count)]
    pub(super) requests: Option<u64>,

    /// Seed of the replay
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    #[command(flatten)]
    pub(super) layout: Layout,

    /// Print one JSON object per row instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

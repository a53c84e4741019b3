//! The arguments of `larder advise`.

use crate::layout::Layout;
use crate::numbers::{bytes, count};
use clap::{Args, ValueEnum};
use larder_advise::{Goal, KEEP, POLICIES, Price, Prices};
use std::path::PathBuf;

/// Find the cache for a site from its access logs: policy, size, and what they save
///
/// Reads logs of common servers, balancers and CDNs, or any trace, once and in bounded memory. A
/// log does not have all that decides what may be stored, so its figures are upper bounds.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder advise access.log --egress 0.05/GB --memory 3/GiB-month")]
pub struct AdviseArgs {
    /// Access logs or traces in any order, plain or compressed with zstd, xz, gzip, bzip2 or zip; -
    /// is standard input
    #[arg(required = true)]
    pub(super) files: Vec<PathBuf>,

    /// Policies to compare, as `larder policies` lists them. Commas separate several
    #[arg(long, short, value_name = "SPEC,…", default_value = POLICIES)]
    pub(super) policy: Vec<String>,

    /// Sizes to compare: bytes (64MiB) or shares of all objects (10%) [default: all objects, and
    /// half of that nine times]
    #[arg(long, short, value_name = "SIZE,…")]
    pub(super) size: Vec<String>,

    /// What the cache should save: requests to the origin, or bytes from it
    #[arg(long, value_enum, default_value_t = Saved::Requests, conflicts_with_all = ["egress", "memory"])]
    pub(super) goal: Saved,

    /// Price of bytes from the origin, such as 0.05/GB. With --memory: the cheapest size is chosen
    #[arg(long, value_name = "PRICE", requires = "memory")]
    pub(super) egress: Option<Price>,

    /// Price of the cache's memory, such as 3/GiB-month
    #[arg(long, value_name = "PRICE", requires = "egress")]
    pub(super) memory: Option<Price>,

    /// Bytes that the cache needs beside the body of each object: key, header fields, tables
    /// [default: 512 for a web server's log, 0 for other traces]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) overhead: Option<u64>,

    /// The most requests to keep in memory, 100 bytes each with all caches. With more requests, a
    /// share of the objects is looked at, and the error is stated
    #[arg(long, value_name = "N", default_value_t = KEEP, value_parser = count)]
    pub(super) keep: u64,

    /// Seed of the sample and of all random choices
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    #[command(flatten)]
    pub(super) layout: Layout,

    /// Also write a page with figures into this file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,

    /// Also write a configuration of the node into this file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(super) json: bool,
}

/// What a cache should save.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Saved {
    /// Requests to the origin.
    Requests,
    /// Bytes from the origin.
    Bytes,
}

impl AdviseArgs {
    pub(super) fn goal(&self) -> Goal {
        match self.goal {
            Saved::Requests => Goal::Requests,
            Saved::Bytes => Goal::Bytes,
        }
    }

    pub(super) fn prices(&self) -> Option<Prices> {
        self.egress
            .zip(self.memory)
            .map(|(egress, memory)| Prices { egress, memory })
    }
}

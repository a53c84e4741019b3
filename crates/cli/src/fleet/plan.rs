//! `larder fleet plan`: what nodes that share their responses would gain on a trace.

use crate::failure::Failure;
use crate::interruption;
use crate::layout::Layout;
use crate::lists::parse_all;
use crate::numbers::count;
use crate::output::line;
use crate::progress::Bar;
use crate::replay::progress::Progress;
use crate::replay::source::Source;
use crate::trace_file;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use larder_policy::Spec;
use larder_replay::{Access, FleetCounts, FleetReplay};
use larder_units::ByteSize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Show what nodes that share their responses would gain on a trace or log
///
/// Replays the requests of all clients of a site through one large cache, through nodes that share
/// it, and through nodes alone, with the parts of the node: its policy, its owners and its rule for
/// copies. A request arrives at any node. The nodes are equal, of one zone, and have no disk tier.
#[derive(Args, Debug)]
#[command(after_help = "Example: larder fleet plan access.log.gz --size 4GiB --nodes 3,10")]
pub(super) struct PlanArgs {
    /// Trace or log, plain or compressed (zstd, xz, gzip, bzip2, zip); - is standard input
    trace: PathBuf,

    /// Capacity of each node, in bytes
    #[arg(long, short, value_name = "SIZE")]
    size: ByteSize,

    /// Numbers of nodes, 1000 in all at most
    #[arg(long, value_name = "N,…", default_value = "2,3,5,10")]
    nodes: Vec<String>,

    /// Policy of each node, as `larder policies` lists them
    #[arg(long, short, value_name = "SPEC", default_value = POLICY)]
    policy: Spec,

    #[command(flatten)]
    layout: Layout,

    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Do not count this many requests at the start, when all caches are empty
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count)]
    warm_up: u64,

    /// Replay at most this many requests
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,

    /// Print one JSON object for each number of nodes instead of a table
    #[arg(long)]
    json: bool,
}

/// The policy of a node's HTTP cache by default.
const POLICY: &str = "agd(optimise=balanced)";

/// The most nodes of all rows.
const MOST: usize = 1000;

/// The caches for one number of nodes.
struct Planned {
    nodes: usize,
    large: FleetReplay,
    shared: FleetReplay,
    alone: FleetReplay,
}

impl Planned {
    fn new(args: &PlanArgs, nodes: usize) -> Result<Planned, Failure> {
        let all = args.size.bytes().checked_mul(nodes as u64);
        let all = all.filter(|all| *all > 0).ok_or_else(|| {
            Failure::usage(format!(
                "--size {}: expected bytes of a cache, such as 4GiB",
                args.size
            ))
        })?;
        let fleet = |size: ByteSize, count, shares| {
            FleetReplay::new(&args.policy, size, count, shares, args.seed)
                .map_err(|error| Failure::usage(format!("--policy: {error}")))
        };
        Ok(Planned {
            nodes,
            large: fleet(ByteSize::from_bytes(all), 1, false)?,
            shared: fleet(args.size, nodes, true)?,
            alone: fleet(args.size, nodes, false)?,
        })
    }

    /// Replays requests, of which the first ones are not counted.
    fn requests(&mut self, accesses: &[Access], uncounted: usize) {
        for fleet in [&mut self.large, &mut self.shared, &mut self.alone] {
            for (number, access) in accesses.iter().enumerate() {
                fleet.request(access);
                if number + 1 == uncounted {
                    fleet.reset_counts();
                }
            }
        }
    }
}

/// Replays, and prints a row for each number of nodes.
pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let bar = Arc::new(Bar::new(0));
    let watched = Arc::clone(&bar);
    interruption::watch(move || interruption::end(&watched, "no row is finished"))?;
    let replayed = replayed(args, Arc::clone(&bar));
    bar.clear();
    let rows = replayed?;
    if args.json {
        for row in &rows {
            line!("{}", json_of(args, row));
        }
    } else {
        line!("{}", table_of(args, &rows));
    }
    Ok(())
}

fn numbers(args: &PlanArgs) -> Result<Vec<usize>, Failure> {
    let given = args.nodes.join(",");
    let mut numbers: Vec<usize> = parse_all(&args.nodes)
        .map_err(|_| Failure::usage(format!("--nodes {given}: expected numbers, such as 3,10")))?;
    numbers.sort_unstable();
    numbers.dedup();
    let all = numbers
        .iter()
        .try_fold(0_usize, |sum, nodes| sum.checked_add(*nodes));
    if numbers.first() == Some(&0) || all.is_none_or(|all| all > MOST) {
        return Err(Failure::usage(format!(
            "--nodes {given}: expected numbers from 1 on, {MOST} in all at most"
        )));
    }
    Ok(numbers)
}

fn replayed(args: &PlanArgs, bar: Arc<Bar>) -> Result<Vec<Planned>, Failure> {
    let numbers = numbers(args)?;
    if args.policy.is_offline() {
        return Err(Failure::usage(format!(
            "--policy {}: it needs to know the future, which no node does",
            args.policy
        )));
    }
    if args.layout.has_lifetime() {
        return Err(Failure::usage(
            "--ttl: each node fetches at times of its own, which a trace cannot say; leave it out",
        ));
    }
    let rows = numbers.iter().map(|nodes| Planned::new(args, *nodes));
    let mut rows: Vec<Planned> = rows.collect::<Result<_, _>>()?;
    let source = Source::new(&args.trace, &args.layout, args.limit);
    let progress = Progress::on(bar);
    progress.add(source.units(rows.len()));
    let mut uncounted = args.warm_up;
    let mut has_sizes = false;
    source.chunks("replaying", &progress, rows.len(), |chunk| {
        has_sizes = has_sizes || chunk.iter().any(|access| access.size > 1);
        if !has_sizes {
            return Err(Failure::usage(format!(
                "{}: its objects have no sizes, so a cache of {} has no meaning",
                source.name(),
                args.size
            )));
        }
        let skipped = uncounted.min(chunk.len() as u64);
        uncounted -= skipped;
        for row in &mut rows {
            row.requests(chunk, skipped as usize);
        }
        Ok(true)
    })?;
    if args.warm_up > 0 && rows.iter().all(|row| row.shared.counts().requests == 0) {
        return Err(Failure::usage(format!(
            "--warm-up {}: the trace has no more requests",
            args.warm_up
        )));
    }
    Ok(rows)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

fn hit_ratio(counts: FleetCounts) -> f64 {
    1.0 - share(counts.origin_requests, counts.requests)
}

fn json_of(args: &PlanArgs, row: &Planned) -> Value {
    let of = |fleet: &FleetReplay| {
        let counts = fleet.counts();
        json!({
            "hit_ratio": hit_ratio(counts),
            "byte_hit_ratio": 1.0 - share(counts.origin_bytes, counts.bytes),
            "origin_requests": counts.origin_requests,
            "origin_bytes": counts.origin_bytes,
        })
    };
    let counts = row.shared.counts();
    json!({
        "trace": trace_file::name(&args.trace),
        "policy": args.policy.to_string(),
        "capacity": args.size.bytes(),
        "seed": args.seed,
        "nodes": row.nodes,
        "requests": counts.requests,
        "bytes": counts.bytes,
        "one_cache": of(&row.large),
        "shared": of(&row.shared),
        "alone": of(&row.alone),
        "peer_requests": counts.peer_requests,
        "peer_bytes": counts.peer_bytes,
        "busiest_owner": row.shared.busiest(),
    })
}

fn table_of(args: &PlanArgs, rows: &[Planned]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "nodes",
        "memory in all",
        "hits alone",
        "shared",
        "one cache",
        "origin requests",
        "origin bytes",
        "between nodes",
        "busiest owner",
    ]);
    for row in rows {
        let counts = [&row.alone, &row.shared, &row.large].map(FleetReplay::counts);
        let [alone, shared, _] = counts;
        let all = ByteSize::from_bytes(args.size.bytes() * row.nodes as u64);
        let mut cells = vec![row.nodes.to_string(), all.to_string()];
        let percent = |part, whole| format!("{:.1} %", share(part, whole) * 100.0);
        cells.extend(counts.map(|counts| format!("{:.4}", hit_ratio(counts))));
        cells.push(percent(shared.origin_requests, alone.origin_requests));
        cells.push(percent(shared.origin_bytes, alone.origin_bytes));
        cells.push(percent(shared.peer_bytes, shared.bytes));
        cells.push(format!("{:.2}", row.shared.busiest()));
        _ = table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!(
        "{}\norigin: of what nodes alone ask it; between nodes: of all bytes; busiest owner: the \
         requests that it gets as an owner, of the mean{}",
        table.trim_fmt(),
        if args.warm_up == 0 {
            "\nfrom empty caches on: --warm-up leaves the first requests out"
        } else {
            ""
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        plan: PlanArgs,
    }

    fn args(trace: &Path, more: &[&str]) -> Result<PlanArgs, Failure> {
        let words = ["larder", trace.to_str().unwrap(), "--size", "64KiB"];
        let program = Program::try_parse_from(words.iter().chain(more));
        let program = program.map_err(|error| Failure::usage(error.to_string()))?;
        Ok(program.plan)
    }

    fn planned(trace: &Path, more: &[&str]) -> Result<(), Failure> {
        run(&args(trace, more)?)
    }

    /// Failure: the columns are exchanged, or shares are of something else.
    #[test]
    fn a_table_tells_another_story() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        // 40 objects that fit into each cache, 100 times in turn.
        let line = |number: u64| format!("{number},{},1000\n", number % 40);
        let lines: String = (0..4000).map(line).collect();
        std::fs::write(&path, format!("time,id,size\n{lines}")).unwrap();
        let args = args(&path, &["--nodes", "4,1,4", "--warm-up", "40"]).unwrap();
        let rows = replayed(&args, Arc::new(Bar::new(0))).unwrap();
        let pages: Vec<Value> = rows.iter().map(|row| json_of(&args, row)).collect();
        assert_eq!(pages.len(), 2);
        let [one, four] = [&pages[0], &pages[1]];
        assert_eq!((&one["nodes"], &four["nodes"]), (&json!(1), &json!(4)));
        assert_eq!(one["peer_requests"], 0);
        for page in [one, four] {
            assert_eq!(
                (&page["requests"], &page["capacity"]),
                (&json!(3960), &json!(65_536))
            );
            assert_eq!(page["one_cache"]["origin_requests"], 0, "all is warm");
            assert_eq!(page["shared"]["origin_requests"], 0);
            assert_eq!(page["policy"], POLICY);
        }
        // Three of four nodes have not seen an object at first.
        let alone = four["alone"]["origin_requests"].as_u64().unwrap();
        assert!((100..=130).contains(&alone), "{alone}");
        assert_eq!(four["alone"]["origin_bytes"], alone * 1000);
        let between = four["peer_requests"].as_u64().unwrap();
        assert_eq!(four["peer_bytes"], between * 1000);
        let text = table_of(&args, &rows);
        let cells: Vec<&str> = text.lines().nth(2).unwrap().split_whitespace().collect();
        let of_alone = format!("{:.4}", 1.0 - alone as f64 / 3960.0);
        let of_bytes = format!("{:.1}", between as f64 / 39.6);
        assert_eq!(
            cells[..5],
            ["4", "256KiB", &of_alone, "1.0000", "1.0000"],
            "{text}"
        );
        assert_eq!(
            cells[5..11],
            ["0.0", "%", "0.0", "%", &of_bytes, "%"],
            "{text}"
        );
    }

    /// Failure: the plan is of another policy than the node's.
    #[test]
    fn the_policy_is_not_the_node_s() {
        let config = larder_node::Config::default();
        assert_eq!(config.http.proxy.cache.policy.to_string(), POLICY);
    }

    /// Failure: a mistake ends in a panic, in a table without meaning, or in a message that names
    /// neither the argument nor the remedy.
    #[test]
    fn mistakes_that_are_not_explained() {
        let folder = tempfile::tempdir().unwrap();
        let (sized, unsized_) = (folder.path().join("a.csv"), folder.path().join("b.csv"));
        std::fs::write(&sized, "time,id,size\n0,1,100\n1,2,100\n2,1,100\n").unwrap();
        std::fs::write(&unsized_, "time,id,size\n0,1,1\n1,2,1\n2,1,1\n").unwrap();
        planned(&sized, &["--nodes", "1,2", "--json"]).unwrap();
        for (trace, more, told) in [
            (
                &sized,
                vec!["--nodes", "0"],
                "--nodes 0: expected numbers from 1 on",
            ),
            (
                &sized,
                vec!["--nodes", "two"],
                "--nodes two: expected numbers",
            ),
            (&sized, vec!["--nodes", "600,700"], "1000 in all"),
            (&sized, vec!["--ttl", "10s"], "--ttl"),
            (&sized, vec!["--warm-up", "3"], "no more requests"),
            (&sized, vec!["--policy", "belady"], "--policy belady"),
            (&unsized_, vec![], "no sizes"),
            (&folder.path().join("c.csv"), vec![], "c.csv"),
        ] {
            let failure = planned(trace, &more).unwrap_err();
            assert!(failure.message.contains(told), "{}", failure.message);
            assert_eq!(failure.code, 2, "{more:?}");
        }
    }
}

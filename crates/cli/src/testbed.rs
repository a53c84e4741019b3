//! `larder testbed`: builds hosts as network namespaces of this machine, with modelled links
//! between them.

use crate::failure::Failure;
use crate::output::line;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use larder_testbed::{Spec, Testbed, command, down};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Build a network of hosts on this machine, with modelled links, and run programs in it
///
/// Hosts are network namespaces. Links have a rate, a delay, a queue and losses, from the
/// simulator's model in real time. Needs root.
#[derive(Args, Debug)]
pub struct TestbedArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Build the network of a file and emulate its links until interrupted; then remove it, and
    /// print the lateness of the emulator
    #[command(after_help = EXAMPLE)]
    Up {
        /// Specification file (TOML)
        spec: PathBuf,
        /// Print JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Run a program on a host of a running testbed
    Run {
        /// The testbed's name
        testbed: String,
        /// The host
        host: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Remove a testbed, including the rest of a killed one: its programs, namespaces and devices
    Down {
        /// The testbed's name
        testbed: String,
    },
}

const EXAMPLE: &str = r#"A specification:
  name = "pair"
  mtu = 1500              # bytes; optional, as all that follows
  congestion = "cubic"    # TCP's, on every host
  seed = 1                # of the losses
  routers = ["middle"]    # places without programs
  [[link]]
  between = ["client", "middle"]
  rate = "100Mbps"
  loss = "5%"             # each way
  queue = 1000            # packets
  [[link]]
  between = ["middle", "server"]
  delay = "50ms"          # each way

Then: larder testbed run pair client ping -c 3 10.77.0.3"#;

/// Builds, uses or removes a testbed.
pub fn run(args: TestbedArgs) -> Result<(), Failure> {
    match args.verb {
        Verb::Up { spec, json } => up(&spec, json),
        Verb::Run {
            testbed,
            host,
            command: words,
        } => {
            let mut inside = command(&format!("larder-{testbed}-{host}"), &words[0]);
            // exec returns only if `ip` is missing. `ip` itself reports a missing host.
            let error = inside.args(&words[1..]).exec();
            Err(Failure::runtime(format!(
                "ip: {}",
                larder_units::system_message(&error)
            )))
        }
        Verb::Down { testbed } => {
            let hosts = down(&testbed).map_err(broken)?;
            match hosts {
                0 => line!("the testbed {testbed} has no namespaces"),
                _ => line!("removed the testbed {testbed} with {hosts} hosts"),
            }
            Ok(())
        }
    }
}

fn up(path: &std::path::Path, json: bool) -> Result<(), Failure> {
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{place}: {}", larder_units::system_message(&error)))
    })?;
    let spec = Spec::parse(&text).map_err(|error| Failure::usage(format!("{place}: {error}")))?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::runtime(format!("signals cannot be caught: {error}")))?;
    }
    let bed = Testbed::up(spec).map_err(broken)?;
    show(bed.spec(), json);
    while !stop.load(Ordering::Relaxed) && bed.is_running() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let report = bed.down().map_err(broken)?;
    if json {
        line!(
            "{}",
            serde_json::json!({ "lateness": report, "sound": report.is_sound() })
        )
    } else {
        line!("{report}")
    }
    if report.is_sound() {
        Ok(())
    } else {
        Err(Failure::runtime(
            "the emulator was late, so measurements over it are not valid",
        ))
    }
}

fn show(spec: &Spec, json: bool) {
    let hosts = spec.hosts().map(|host| {
        (
            spec.nodes[host].name.as_str(),
            spec.address(host).to_string(),
        )
    });
    if json {
        let hosts: serde_json::Map<String, serde_json::Value> = hosts
            .map(|(name, address)| (name.to_owned(), address.into()))
            .collect();
        return line!(
            "{}",
            serde_json::json!({ "testbed": spec.name, "hosts": hosts })
        );
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["host", "address"]);
    for (name, address) in hosts {
        table.add_row([name, &address]);
    }
    line!(
        "{table}\nlarder testbed run {} HOST PROGRAM …   runs a program there; Ctrl-C removes the testbed",
        spec.name
    );
}

fn broken(error: larder_testbed::Error) -> Failure {
    Failure::runtime(error.to_string())
}

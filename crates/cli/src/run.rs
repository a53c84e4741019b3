//! `larder run`: runs the node.

pub(crate) mod sites;

use crate::failure::Failure;
use crate::output::{error_line, line};
use clap::Args;
use larder_node::{Config, ConfigSources, Handover, Node, RunningConfig};
use sites::Places;
use std::io::Write;
use std::path::PathBuf;

/// Run the node: NDN forwarder and HTTP cache
///
/// `larder run https://example.com --origin http://127.0.0.1:3000` serves a site: it listens on
/// ports 80 and 443, gets its certificate by itself, and redirects HTTP to HTTPS.
///
/// Every key of the configuration can also be set by --set or by an environment variable:
/// http.cache by --set http.cache=1GiB or LARDER_HTTP_CACHE=1GiB. A flag has precedence over a
/// variable, and a variable over the file.
#[derive(Args, Debug, Default)]
pub struct RunArgs {
    /// Configuration file (TOML) [default: the embedded configuration, which --print-config shows],
    /// or sites such as https://example.com
    #[arg(value_name = "CONFIG|https://HOST")]
    places: Vec<PathBuf>,

    /// The configuration file, as other commands take it
    #[arg(long, value_name = "FILE", hide = true)]
    config: Option<PathBuf>,

    #[command(flatten)]
    flags: Flags,

    /// Print the default configuration with every key, and exit
    #[arg(long)]
    print_config: bool,

    /// Print what the default configuration says of a key or a table, such as http.cache, and exit
    #[arg(long, value_name = "KEY", conflicts_with = "print_config")]
    explain: Option<String>,

    /// Print the page of all keys, docs/reference/configuration.md, and exit
    #[arg(long, hide = true, conflicts_with = "print_config")]
    print_reference: bool,

    /// Print the values of all keys and the place that each comes from, and exit
    #[arg(long, conflicts_with = "print_config")]
    print_effective_config: bool,

    /// Read the configuration, try its listeners, certificates, keys and disk files, report every
    /// problem, and exit
    #[arg(long)]
    check: bool,
}

/// The flags that set keys.
#[derive(Args, Debug, Default)]
struct Flags {
    /// The origin of the HTTP cache, such as http://127.0.0.1:3000, or the folder of its files, such
    /// as /srv/www: [http] origin
    #[arg(long, value_name = "URL")]
    origin: Option<String>,

    /// The address for HTTP, such as 0.0.0.0:80: [http] listen
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,

    /// Capacity of the HTTP cache: [http] cache
    #[arg(long, value_name = "SIZE")]
    cache: Option<String>,

    /// Policy of the HTTP cache: [http] policy
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,

    /// The address of /metrics and /status: [admin] listen
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,

    /// The level of the log: [log] level
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,

    /// Set any key of the configuration, such as http.cache=1GiB. Values of other types are TOML;
    /// texts need no quotes, and a list of texts no brackets
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

fn assignment(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text
        .split_once('=')
        .ok_or("expected KEY=VALUE, such as http.cache=1GiB")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

impl Flags {
    /// Adds the flags to the sources. A key that has a flag of its own may not be in --set too.
    fn add_to(&self, sources: &mut ConfigSources) -> Result<(), Failure> {
        for (key, value) in &self.set {
            sources.set(&format!("--set {key}"), key, value);
        }
        let named = [
            ("--origin", "http.origin", &self.origin),
            ("--listen", "http.listen", &self.listen),
            ("--cache", "http.cache", &self.cache),
            ("--policy", "http.policy", &self.policy),
            ("--admin", "admin.listen", &self.admin),
            ("--log-level", "log.level", &self.log_level),
        ];
        for (flag, key, value) in named {
            let Some(value) = value else { continue };
            if self.set.iter().any(|(set, _)| set == key) {
                return Err(Failure::usage(format!(
                    "{flag} and --set {key} set the same key: keep one"
                )));
            }
            sources.set(flag, key, value);
        }
        Ok(())
    }
}

/// Runs the node until SIGINT or SIGTERM; SIGHUP reloads its file, SIGUSR2 replaces the process.
pub fn run(args: RunArgs) -> Result<(), Failure> {
    if args.print_config {
        line!("{}", larder_node::DEFAULT.trim_end());
        return Ok(());
    }
    if let Some(key) = &args.explain {
        let said = larder_node::explain(key).map_err(Failure::usage)?;
        line!("{}", said.trim_end());
        return Ok(());
    }
    if args.print_reference {
        line!("{}", larder_node::reference().trim_end());
        return Ok(());
    }
    let named: Vec<PathBuf> = args.places.iter().chain(&args.config).cloned().collect();
    let places = Places::new(&named)?;
    let mut sources = ConfigSources::of_process(places.file.as_deref());
    places.add_to(&mut sources);
    args.flags.add_to(&mut sources)?;
    if let (Some(site), None) = (places.hosts.first(), &places.file)
        && !sources.sets("http.origin")
    {
        return Err(Failure::usage(format!(
            "https://{site}: name what stands behind it, such as --origin http://127.0.0.1:3000, or --origin /srv/www \
             for the files of a folder"
        )));
    }
    let wrong = |error: larder_node::ConfigError| Failure::usage(error.to_string());
    if args.print_effective_config {
        line!("{}", sources.effective().map_err(wrong)?.trim_end());
        return Ok(());
    }
    if args.check {
        return check(&sources);
    }
    let mut handover =
        Handover::of_process().map_err(|error| Failure::runtime(error.to_string()))?;
    let started = RunningConfig::load(sources)
        .map_err(wrong)
        .and_then(|(config, running)| Ok((start(&config, &mut handover)?, running)));
    let (node, running) = started.inspect_err(|failure| handover.fail(&failure.message))?;
    // A closed standard output does not stop the node.
    let _ = std::io::stdout().write_all(node.greeting().as_bytes());
    node.run(running)
        .map_err(|error| Failure::runtime(error.to_string()))
}

fn start(config: &Config, handover: &mut Handover) -> Result<Node, Failure> {
    larder_node::log::init(&config.log);
    let has_sockets = handover.has_sockets();
    Node::start_on(config, handover).map_err(|error| {
        if has_sockets {
            // The addresses are in use by the process that passes the sockets.
            Failure::runtime(error.to_string())
        } else {
            cannot_start(config, error.to_string())
        }
    })
}

/// Checks whether a node could start with this configuration.
fn check(sources: &ConfigSources) -> Result<(), Failure> {
    let checked = larder_node::check_in_time(sources).ok_or_else(|| {
        let (problem, remedy) = larder_node::NO_END;
        Failure::usage(format!("{problem}; {remedy}"))
    })?;
    for warning in &checked.warnings {
        error_line!("larder: warning: {warning}");
    }
    if !checked.problems.is_empty() {
        return Err(Failure::usage(checked.problems.join("\n")));
    }
    match checked.config.as_ref().and_then(larder_node::running_node) {
        Some(pid) => line!(
            "the configuration is right; process {pid} runs by this file, and reads it again at SIGHUP"
        ),
        None => line!("the configuration is right"),
    }
    Ok(())
}

/// Returns a failure with all problems, not only the first one at which the start stopped.
fn cannot_start(config: &Config, first: String) -> Failure {
    let mut problems = larder_node::problems(config);
    if !problems.contains(&first) {
        problems.insert(0, first);
    }
    Failure::runtime(problems.join("\n"))
}

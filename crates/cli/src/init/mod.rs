//! `larder init`: writes a commented configuration for one of the usual nodes.

mod questions;
mod text;

use crate::failure::Failure;
use crate::output::line;
use clap::{Args, Subcommand};
use larder_node::Config;
use larder_units::system_message;
use questions::Questions;
use rustix::process::geteuid;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Write a commented configuration: an edge with HTTPS, an NDN router, or a laboratory
///
/// Without the flags that a node needs, and on a terminal, it asks at most three questions.
#[derive(Args, Debug)]
pub struct InitArgs {
    #[command(subcommand)]
    kind: Kind,

    /// The file to write; - for standard output
    #[arg(
        long,
        short,
        value_name = "FILE",
        default_value = "larder.toml",
        global = true
    )]
    output: PathBuf,

    /// Replace the file if there is one
    #[arg(long, global = true)]
    force: bool,
}

#[derive(Subcommand, Debug)]
enum Kind {
    /// An HTTP cache with HTTPS on ports 80 and 443, in front of an origin
    Edge(EdgeArgs),
    /// A forwarder of Named Data Networking (NDN) for other machines
    Router(RouterArgs),
    /// Both sides on this machine only, with generated objects, to try things out
    Laboratory,
}

/// What stands behind the cache, and its certificate.
#[derive(Args, Debug, Default)]
struct EdgeArgs {
    /// A host that clients name, such as www.example.com; may be repeated. Larder gets its
    /// certificates by ACME, unless there is one
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    host: Vec<String>,

    /// The origin, such as http://127.0.0.1:3000, or the folder of its files, such as /srv/www
    #[arg(long, value_name = "URL")]
    origin: Option<String>,

    /// Your own certificate, a PEM file: the server's first, then those that lead to a root
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,

    /// Its private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

/// The neighbours.
#[derive(Args, Debug, Default)]
struct RouterArgs {
    /// Another forwarder that gets what no other route does, such as udp://192.0.2.1; may be
    /// repeated
    #[arg(long, value_name = "URI", value_delimiter = ',')]
    uplink: Vec<String>,

    /// The names that uplinks get
    #[arg(long, value_name = "PREFIX", default_value = "/")]
    prefix: String,
}

/// A certificate of an edge.
enum Identity {
    Files { certificate: PathBuf, key: PathBuf },
    Acme { hosts: Vec<String> },
}

/// Writes the file, and says the next command.
pub fn run(args: InitArgs) -> Result<(), Failure> {
    let is_printed = args.output == Path::new("-");
    if !is_printed && !args.force && args.output.exists() {
        return Err(exists(&args.output));
    }
    let mut questions = Questions::of_terminal();
    let text = match args.kind {
        Kind::Edge(edge) => edge.text(&mut questions)?,
        Kind::Router(router) => router.text(&mut questions)?,
        Kind::Laboratory => text::laboratory(),
    };
    // What an answer makes wrong is said before there is a file.
    Config::parse(&text, "the answers").map_err(|error| Failure::usage(error.to_string()))?;
    if is_printed {
        line!("{}", text.trim_end());
        return Ok(());
    }
    write(&args.output, &text, args.force)?;
    let file = args.output.display();
    line!("wrote {file}");
    if geteuid().is_root() {
        line!("a node of another user has to be able to read it: `ls -l {file}`");
    }
    line!("next: larder doctor --config {file}   # what this machine lacks for it");
    line!("then: larder run {file}");
    Ok(())
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "{}: the file exists; --force replaces it, and -o names another one",
        path.display()
    ))
}

/// Writes the file. Its owner alone may read a new one: it is the place of the admin server's
/// token. One that is replaced keeps its permissions, but others may not read a token in it.
fn write(path: &Path, text: &str, replaces: bool) -> Result<(), Failure> {
    // The file that a symbolic link points to is replaced, not the link.
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let written = match fs::metadata(&real) {
        Ok(old) if replaces => replace(&real, &old, text),
        _ => {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let file = options.open(path);
            file.and_then(|mut file| file.write_all(text.as_bytes()))
        }
    };
    match written {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => {
            let error = system_message(&error);
            Err(Failure::runtime(format!("{}: {error}", path.display())))
        }
    }
}

/// Replaces a file by a complete one with the same owner, group and mode.
fn replace(path: &Path, old: &Metadata, text: &str) -> io::Result<()> {
    if !old.is_file() {
        return OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(text.as_bytes());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    let mode = if fchown(file.as_file(), Some(old.uid()), Some(old.gid())).is_ok() {
        old.mode() & 0o7777
    } else {
        // The group may be another one now, and gets no more than all users had.
        let of_others = old.mode() & 0o007;
        (old.mode() & 0o700) | (of_others << 3) | of_others
    };
    let has_token = text.contains("\ntoken = ");
    let permissions = fs::Permissions::from_mode(if has_token { mode & !0o007 } else { mode });
    file.as_file().set_permissions(permissions)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

impl EdgeArgs {
    /// Returns the configuration, after the questions for what is missing.
    fn text(self, questions: &mut Questions) -> Result<String, Failure> {
        let origin = questions.required(
            self.origin,
            "--origin",
            "The origin, such as http://127.0.0.1:3000, or a folder of files",
        )?;
        let files = self.certificate.zip(self.key);
        let files = match files {
            None if self.host.is_empty() => certificate(questions)?,
            files => files,
        };
        let identity = match files {
            Some((certificate, key)) => Identity::Files {
                certificate: whole(&certificate)?,
                key: whole(&key)?,
            },
            None if self.host.is_empty() => {
                let hosts = questions.required(
                    None,
                    "--host, or --certificate and --key",
                    "The hosts that clients name, such as www.example.com",
                )?;
                let hosts = hosts.split([',', ' ']).filter(|host| !host.is_empty());
                Identity::Acme {
                    hosts: hosts.map(str::to_owned).collect(),
                }
            }
            None => Identity::Acme { hosts: self.host },
        };
        Ok(text::edge(&origin, &identity))
    }
}

/// Asks for files of a certificate; `None` for ACME.
fn certificate(questions: &mut Questions) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let question = "Your certificate and its key, two PEM files; nothing: Larder gets one by ACME";
    let answer = questions.optional(question)?;
    let mut files = answer.split_whitespace();
    match (files.next(), files.next(), files.next()) {
        (None, ..) => Ok(None),
        (Some(certificate), Some(key), None) => Ok(Some((certificate.into(), key.into()))),
        _ => Err(Failure::usage(
            "expected two files: that of the certificate, and that of its key",
        )),
    }
}

/// Returns a path that does not depend on the folder in which the node starts.
fn whole(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
}

impl RouterArgs {
    /// Returns the configuration, after the question for what is missing.
    fn text(self, questions: &mut Questions) -> Result<String, Failure> {
        let uplinks = if self.uplink.is_empty() {
            let question = "A forwarder that gets what no other route does, such as udp://192.0.2.1; nothing: none";
            let answer = questions.optional(question)?;
            answer.split_whitespace().map(str::to_owned).collect()
        } else {
            self.uplink
        };
        Ok(text::router(&uplinks, &self.prefix))
    }
}

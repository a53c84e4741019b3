//! Reads the certificates that the configuration names.

use larder_packet::{Certificate, CertificateError as Invalid};
use larder_units::system_message;
use std::path::{Path, PathBuf};
use std::{error, fmt, io};

/// The reason why a certificate of the configuration cannot be read or used.
#[derive(Debug)]
pub struct CertificateError {
    /// The table, such as `ndn.verify`.
    table: &'static str,
    /// The key in the table.
    key: &'static str,
    /// The file.
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    /// The file cannot be read.
    Read(io::Error),
    /// Its text is no certificate, or a signature is wrong.
    Invalid(Invalid),
    /// Some certificates of the chain do not lead to the anchor.
    Unchained {
        strays: usize,
        all: usize,
        anchor: PathBuf,
    },
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CertificateError {
            table,
            key,
            path,
            problem,
        } = self;
        write!(f, "[[{table}]] {key} = {path:?}: ")?;
        match problem {
            Problem::Read(error) => f.write_str(&system_message(error)),
            Problem::Invalid(error) => error.fmt(f),
            Problem::Unchained {
                strays,
                all,
                anchor,
            } => {
                write!(
                    f,
                    "{strays} of {all} certificates do not lead to {anchor:?}"
                )
            }
        }
    }
}

impl error::Error for CertificateError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.problem {
            Problem::Read(error) => Some(error),
            Problem::Invalid(error) => Some(error),
            Problem::Unchained { .. } => None,
        }
    }
}

/// Returns the certificate of one file, and those of another that lead to it.
pub(super) fn read(
    table: &'static str,
    key: &'static str,
    anchor: &Path,
    chain: Option<&Path>,
) -> Result<Vec<Certificate>, CertificateError> {
    let wrong = |key, path: &Path, problem| CertificateError {
        table,
        key,
        path: path.to_owned(),
        problem,
    };
    let read = |key, path: &Path| {
        std::fs::read_to_string(path).map_err(|error| wrong(key, path, Problem::Read(error)))
    };
    let anchored = Certificate::from_base64(&read(key, anchor)?);
    let anchored = anchored.map_err(|error| wrong(key, anchor, Problem::Invalid(error)))?;
    let Some(chain) = chain else {
        return Ok(vec![anchored]);
    };
    let bundle = Certificate::bundle_from_base64(&read("chain", chain)?);
    let trusted = bundle.and_then(|bundle| Ok((bundle.len(), anchored.with_chained(&bundle)?)));
    let (all, trusted) = trusted.map_err(|error| wrong("chain", chain, Problem::Invalid(error)))?;
    match all + 1 - trusted.len() {
        0 => Ok(trusted),
        strays => Err(wrong(
            "chain",
            chain,
            Problem::Unchained {
                strays,
                all,
                anchor: anchor.to_owned(),
            },
        )),
    }
}

/// Returns a line for each of these certificates, of the setting `key`, that is not valid at this
/// time.
pub(super) fn not_valid(
    table: &str,
    key: &str,
    anchor: &Path,
    certificates: &[Certificate],
    unix_seconds: u64,
) -> Vec<String> {
    let problems = certificates
        .iter()
        .filter_map(|certificate| certificate.check_time(unix_seconds).err());
    problems
        .map(|problem| format!("[[{table}]] {key} = {anchor:?}: {problem}"))
        .collect()
}

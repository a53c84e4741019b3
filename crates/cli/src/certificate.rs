//! `larder certificate`: makes a self-signed NDN certificate.

use crate::failure::Failure;
use crate::output::line;
use clap::Args;
use larder_packet::{
    CERTIFICATE_FRESHNESS, CertificateError, Name, SystemRandom, self_signed, to_base64,
};
use larder_units::system_message;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Print a self-signed certificate of a key
///
/// The certificate names the key for [[ndn.authorize]], [[ndn.verify]] and `larder get --trust`,
/// and is written in base64 as `ndnsec cert-dump` writes it. It is valid for 20 years.
/// `openssl genpkey -algorithm ed25519` makes a key.
#[derive(Args, Debug)]
pub struct CertificateArgs {
    /// Private key: Ed25519 or ECDSA P-256 (PEM, PKCS#8)
    key: PathBuf,

    /// Name of the key: the name of its owner, KEY, and any last component, such as
    /// /operator/KEY/1
    name: Name,
}

/// Prints the certificate.
pub fn run(args: CertificateArgs) -> Result<(), Failure> {
    let CertificateArgs { key, name } = args;
    let text = std::fs::read_to_string(&key).map_err(|error| {
        Failure::usage(format!("{}: {}", key.display(), system_message(&error)))
    })?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let wire = self_signed(
        &text,
        &name,
        now,
        CERTIFICATE_FRESHNESS,
        &SystemRandom::new(),
    )
    .map_err(|error| match error {
        CertificateError::NotACertificate => Failure::usage(format!(
            "{name} is no name of a key: it ends in /KEY/IDENTIFIER, as in /operator/KEY/1"
        )),
        error => Failure::usage(format!("{}: {error}", key.display())),
    })?;
    line!("{}", to_base64(&wire).trim_end());
    Ok(())
}

//! Certificates to begin with: an authority of the fleet, and certificates of nodes that it signs.

use crate::error::Error;
use larder_fleet::is_peer_name;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs::{OpenOptions, create_dir_all};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What [`make_certificates`] has written.
#[derive(Clone, Debug)]
pub struct MadeCertificates {
    /// The certificate of the authority.
    pub ca: PathBuf,
    /// Whether the authority was there before.
    pub existed: bool,
    /// The certificate and the key of each node.
    pub nodes: Vec<(PathBuf, PathBuf)>,
}

/// The authority's certificate holds for longer than a fleet keeps its key: ten years.
const OF_AUTHORITY: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Clocks of nodes differ.
const BEFORE: Duration = Duration::from_secs(3600);

/// Makes certificates for nodes of these names, for so long, into a folder: `NODE.pem` and
/// `NODE.key`. The authority is `fleet-ca.pem` and `fleet-ca.key` there, made if it is missing; so
/// a later call adds nodes, or renews them. Its key belongs on no node.
///
/// # Errors
/// A name that no node may have, or a file that cannot be read or written. A file of a node that is
/// there already is replaced.
pub fn make_certificates(
    folder: &Path,
    nodes: &[String],
    valid: Duration,
) -> Result<MadeCertificates, Error> {
    let wrong = nodes.iter().find(|node| !is_peer_name(node));
    if let Some(node) = wrong {
        return Err(Error::Certificates(format!(
            "{node:?} is no name of a node that shares: expected 1 to 63 letters, digits, \"-\" and \"_\", not only \
             digits, and no \"-\" at an end"
        )));
    }
    create_dir_all(folder).map_err(|error| Error::File(folder.to_owned(), error))?;
    let (ca, ca_key) = (folder.join("fleet-ca.pem"), folder.join("fleet-ca.key"));
    let (key, existed) = match std::fs::read_to_string(&ca_key) {
        Ok(pem) => (KeyPair::from_pem(&pem).map_err(of_file(&ca_key))?, true),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            (KeyPair::generate().map_err(of_file(&ca_key))?, false)
        }
        Err(error) => return Err(Error::File(ca_key, error)),
    };
    let mut authority = params(Vec::new(), "larder fleet authority", OF_AUTHORITY)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if !existed {
        let signed = authority.self_signed(&key).map_err(of_file(&ca))?;
        // The certificate last: a key without one is used again.
        write(&ca_key, &key.serialize_pem(), 0o600)?;
        write(&ca, &signed.pem(), 0o644)?;
    } else if !ca.exists() {
        let signed = authority.self_signed(&key).map_err(of_file(&ca))?;
        write(&ca, &signed.pem(), 0o644)?;
    }
    let issuer = Issuer::new(authority, key);
    let mut made = MadeCertificates {
        ca,
        existed,
        nodes: Vec::new(),
    };
    for node in nodes {
        let (path, key_path) = (
            folder.join(format!("{node}.pem")),
            folder.join(format!("{node}.key")),
        );
        let mut of_node = params(vec![node.clone()], node, valid)?;
        of_node.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Each node asks and answers.
        of_node.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().map_err(of_file(&key_path))?;
        let signed = of_node.signed_by(&key, &issuer).map_err(of_file(&path))?;
        write(&key_path, &key.serialize_pem(), 0o600)?;
        write(&path, &signed.pem(), 0o644)?;
        made.nodes.push((path, key_path));
    }
    Ok(made)
}

fn params(names: Vec<String>, subject: &str, valid: Duration) -> Result<CertificateParams, Error> {
    let made = CertificateParams::new(names);
    let mut params = made.map_err(|error| Error::Certificates(error.to_string()))?;
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, subject);
    params.distinguished_name = name;
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + valid).into();
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn of_file(path: &Path) -> impl FnOnce(rcgen::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::Certificates(format!("{path}: {error}"))
}

/// Writes a file by a temporary name: no other program sees a half of it, or one with other rights.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), Error> {
    let of_file = |error| Error::File(path.to_owned(), error);
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(of_file(error)),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .map_err(of_file)?;
    file.write_all(text.as_bytes()).map_err(of_file)?;
    file.sync_all().map_err(of_file)?;
    std::fs::rename(&temporary, path).map_err(of_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::server::WebPkiClientVerifier;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    const YEAR: Duration = Duration::from_secs(365 * 86_400);

    fn read(path: &Path) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(path).unwrap()
    }

    /// Failure: a node refuses the certificate of another one that was made later; accepts one of
    /// another fleet, of another node, or one that has expired; or all may read the keys.
    #[test]
    fn certificates_are_refused_or_open_to_all() {
        let folder = tempfile::tempdir().unwrap();
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let first = make_certificates(folder.path(), &names(&["fra-1", "fra_2"]), YEAR).unwrap();
        assert!(!first.existed);
        let ca = std::fs::read(&first.ca).unwrap();
        let later = make_certificates(folder.path(), &names(&["ams-1"]), YEAR).unwrap();
        assert!(later.existed && std::fs::read(&later.ca).unwrap() == ca);
        let other = tempfile::tempdir().unwrap();
        let foreign = make_certificates(other.path(), &names(&["fra-1"]), YEAR).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(read(&first.ca)).unwrap();
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let of_server =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let (of_server, of_client) = (
            of_server.build().unwrap(),
            WebPkiClientVerifier::builder_with_provider(roots, provider)
                .build()
                .unwrap(),
        );
        let accepts = |path: &Path, name: &'static str, at: Duration| {
            let now = UnixTime::since_unix_epoch(at);
            let certificate = read(path);
            let name = ServerName::try_from(name).unwrap();
            let as_server = of_server.verify_server_cert(&certificate, &[], &name, &[], now);
            let as_client = of_client.verify_client_cert(&certificate, &[], now);
            (as_server.is_ok(), as_client.is_ok())
        };
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap();
        assert_eq!(accepts(&first.nodes[0].0, "fra-1", now), (true, true));
        assert_eq!(accepts(&first.nodes[1].0, "fra_2", now), (true, true));
        assert!(ServerName::try_from("42").is_err() && ServerName::try_from("fra-").is_err());
        assert_eq!(accepts(&later.nodes[0].0, "ams-1", now), (true, true));
        assert_eq!(accepts(&first.nodes[0].0, "ams-1", now), (false, true));
        assert_eq!(accepts(&foreign.nodes[0].0, "fra-1", now), (false, false));
        assert_eq!(
            accepts(&first.nodes[0].0, "fra-1", now + YEAR * 2),
            (false, false)
        );
        for key in [&first.nodes[0].1, &folder.path().join("fleet-ca.key")] {
            let mode = std::fs::metadata(key).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        for wrong in [
            "",
            "../a",
            "a/b",
            "a.b",
            "42",
            "fra-",
            "-a",
            &"a".repeat(64),
        ] {
            let made = make_certificates(folder.path(), &names(&[wrong]), YEAR);
            assert!(made.unwrap_err().to_string().contains("no name of a node"));
        }
    }
}

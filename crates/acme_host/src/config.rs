//! `[http.tls.acme]`: the hosts, and the authority.

use larder_acme::{CertificateHost, limits};
use larder_units::{from_text, optional_path};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The folder by default: systemd's for the state of a service with this name.
const FOLDER: &str = "/var/lib/larder/acme";

/// `[http.tls.acme]`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AcmeConfig {
    /// The hosts that get a certificate each.
    #[serde(deserialize_with = "hosts")]
    pub hosts: Vec<CertificateHost>,
    /// The address for messages of the authority; `None` for none.
    #[serde(default, deserialize_with = "email")]
    pub email: Option<String>,
    /// The URL of the authority's directory.
    #[serde(default = "directory", deserialize_with = "https")]
    pub directory: String,
    /// The folder of certificates, keys and the account.
    #[serde(default = "folder")]
    pub folder: PathBuf,
    /// The ways in which the authority checks that a host is this node.
    #[serde(default = "challenges", deserialize_with = "some_challenges")]
    pub challenges: Vec<ChallengeKind>,
    /// The kind of certificate, by the authority's name for it; `None` for its usual one.
    #[serde(default, deserialize_with = "optional_text")]
    pub profile: Option<String>,
    /// The account that the operator has at the authority; `None` if it needs none.
    #[serde(default)]
    pub eab: Option<ExternalAccount>,
    /// PEM file of the certificates that verify the authority's own HTTPS; `None` for the system's.
    #[serde(default, deserialize_with = "optional_path")]
    pub directory_ca: Option<PathBuf>,
}

/// The account of an operator at an authority (RFC 8555 §7.3.4).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ExternalAccount {
    /// The authority's name for the key.
    pub key_id: String,
    /// The file with the key, in base64url as the authority shows it.
    pub hmac_file: PathBuf,
}

/// A way to show that a host is this node.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum ChallengeKind {
    /// A request to port 80 (RFC 8555 §8.3).
    #[serde(rename = "http-01")]
    Http01,
    /// A TLS handshake on port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl AcmeConfig {
    /// Returns the usual configuration for these hosts.
    pub fn new(hosts: Vec<CertificateHost>) -> AcmeConfig {
        AcmeConfig {
            hosts,
            email: None,
            directory: directory(),
            folder: folder(),
            challenges: challenges(),
            profile: None,
            eab: None,
            directory_ca: None,
        }
    }

    /// Returns the files that it names.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let hmac = self.eab.as_ref().map(|eab| &eab.hmac_file);
        let hmac = hmac.map(|path| ("[http.tls.acme] eab", path));
        let ca = self.directory_ca.as_ref();
        hmac.into_iter()
            .chain(ca.map(|path| ("[http.tls.acme] directory_ca", path)))
    }
}

fn directory() -> String {
    LETS_ENCRYPT.to_owned()
}

fn folder() -> PathBuf {
    PathBuf::from(FOLDER)
}

fn challenges() -> Vec<ChallengeKind> {
    vec![ChallengeKind::Http01, ChallengeKind::TlsAlpn01]
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<CertificateHost>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let most = limits::HOSTS;
    if texts.is_empty() || texts.len() > most {
        let count = texts.len();
        return Err(D::Error::custom(format!(
            "hosts: expected 1 to {most} names of hosts, not {count}"
        )));
    }
    let mut seen = BTreeSet::new();
    let host = |text: &String| {
        let host = CertificateHost::parse(text)
            .map_err(|error| D::Error::custom(format!("hosts: {text:?}: {error}")))?;
        if !seen.insert(host.clone()) {
            return Err(D::Error::custom(format!("hosts: {text:?} is named twice")));
        }
        Ok(host)
    };
    texts.iter().map(host).collect()
}

fn some_challenges<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<ChallengeKind>, D::Error> {
    let kinds = Vec::<ChallengeKind>::deserialize(deserializer)?;
    if kinds.is_empty() {
        return Err(D::Error::custom(
            "challenges: expected \"http-01\", \"tls-alpn-01\" or both",
        ));
    }
    Ok(kinds)
}

fn email<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        _ if text.contains('@') && !text.contains([':', ' ', ',', '?']) => {
            Ok(Some(text.to_owned()))
        }
        _ => Err("expected an address such as \"admin@example.com\", or \"\" for none"),
    })
}

fn https<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    from_text(deserializer, |text| {
        let uri = text.parse::<http::Uri>().ok();
        let is_https = |uri: &http::Uri| {
            uri.scheme_str() == Some("https") && uri.host().is_some_and(|host| !host.is_empty())
        };
        match uri {
            Some(uri) if is_https(&uri) => Ok(text.to_owned()),
            _ => Err("expected the https:// URL of an authority's directory"),
        }
    })
}

fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

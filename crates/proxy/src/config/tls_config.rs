//! The configuration of TLS for clients.

use crate::config::listen::listeners;
use ::http::HeaderName;
use larder_acme_host::AcmeConfig;
use larder_host::ListenConfig;
use larder_units::{from_text, optional_path};
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// `[http.tls]`: the listeners for TLS, and the identity.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The listeners; none if it is off.
    #[serde(deserialize_with = "listeners")]
    pub listen: Vec<ListenConfig>,
    /// The certificate for clients that name no host, or an unknown one; `None` if the hosts of
    /// `acme` have all that is needed.
    #[serde(rename = "*certificate", default, deserialize_with = "optional_files")]
    pub certificate: Option<CertificateFiles>,
    /// `[[http.tls.certificates]]`: certificates for the hosts that they name. Of several for one
    /// host, the first is used.
    #[serde(default)]
    pub certificates: Vec<CertificateFiles>,
    /// `[http.tls.acme]`: hosts that get a certificate from an authority by themselves.
    #[serde(default)]
    pub acme: Option<AcmeConfig>,
    /// Certificates that clients show.
    #[serde(rename = "*clients", default)]
    pub clients: ClientCertificates,
    /// The oldest version of TLS.
    #[serde(default)]
    pub min_version: TlsVersion,
    /// Whether HTTP/3 is served, over UDP at the same addresses.
    #[serde(default = "on")]
    pub http3: bool,
}

fn on() -> bool {
    true
}

/// A certificate and its key.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// PEM file: the server's certificate first, then those that lead to a root.
    pub certificate: PathBuf,
    /// PEM file: its private key, as PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// The certificates of clients.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct ClientCertificates {
    /// PEM file of the authorities that sign them; `None` if clients are not asked for one.
    #[serde(rename = "client_ca", deserialize_with = "optional_path")]
    pub authorities: Option<PathBuf>,
    /// Whether a client without one gets a connection; `None` for the default.
    #[serde(rename = "client_certificates")]
    pub need: Option<CertificateNeed>,
    /// The request field that tells the origin the subject of the verified certificate.
    #[serde(rename = "client_subject", deserialize_with = "optional_field")]
    pub subject_field: Option<HeaderName>,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum CertificateNeed {
    /// A client without one gets no connection: the default.
    Required,
    /// A client may have none.
    Optional,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446
    #[serde(rename = "1.3")]
    Tls13,
}

impl TlsConfig {
    /// Returns the configuration for one certificate.
    pub fn new(listen: Vec<ListenConfig>, certificate: CertificateFiles) -> TlsConfig {
        TlsConfig {
            listen,
            certificate: Some(certificate),
            certificates: Vec::new(),
            acme: None,
            clients: ClientCertificates::default(),
            min_version: TlsVersion::default(),
            http3: on(),
        }
    }

    /// Returns a setting that is missing or has no effect, and the remedy.
    pub fn contradiction(&self) -> Option<String> {
        if !self.has_certificate() {
            return Some(
                "[http.tls]: no certificate: set certificate and key, or [http.tls.acme] hosts for certificates that \
                 Larder orders itself"
                    .to_owned(),
            );
        }
        let is_half = |pair: &CertificateFiles| {
            pair.certificate.as_os_str().is_empty() || pair.key.as_os_str().is_empty()
        };
        if self.certificate.as_ref().is_some_and(is_half) {
            return Some(
                "[http.tls] certificate and key need each other: set both, or none with [http.tls.acme]"
                    .to_owned(),
            );
        }
        let ClientCertificates {
            authorities,
            need,
            subject_field,
        } = &self.clients;
        let key = match (need, subject_field) {
            _ if authorities.is_some() => return None,
            (Some(_), _) => "client_certificates",
            (None, Some(_)) => "client_subject",
            (None, None) => return None,
        };
        Some(format!(
            "[http.tls] {key}: it needs client_ca, the authorities that sign the clients' certificates"
        ))
    }

    /// Returns true if there is a certificate for clients that name no host.
    pub fn has_certificate(&self) -> bool {
        self.certificate.is_some() || self.acme.is_some()
    }

    /// Returns all its files of certificates. The folder of `acme` is not among them: its thread
    /// looks after it.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let pairs = self.certificate.iter().chain(&self.certificates);
        let pairs = pairs.flat_map(|pair| [&*pair.certificate, &*pair.key]);
        pairs.chain(self.clients.authorities.as_deref()).collect()
    }
}

impl ClientCertificates {
    /// Returns true if clients are asked for a certificate.
    pub(crate) fn are_verified(&self) -> bool {
        self.authorities.is_some()
    }

    /// Returns true if a client without a certificate gets no connection.
    pub(crate) fn are_required(&self) -> bool {
        self.are_verified() && self.need != Some(CertificateNeed::Optional)
    }

    /// Returns the request field for the subject of a verified certificate, if there is one.
    pub(crate) fn subject_field(&self) -> Option<&HeaderName> {
        self.subject_field.as_ref().filter(|_| self.are_verified())
    }
}

/// Reads the keys `certificate` and `key`.
fn optional_files<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<CertificateFiles>, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Files {
        #[serde(deserialize_with = "optional_path")]
        certificate: Option<PathBuf>,
        #[serde(deserialize_with = "optional_path")]
        key: Option<PathBuf>,
    }
    let Files { certificate, key } = Files::deserialize(deserializer)?;
    // Half of a pair is a contradiction, which counts only if the other half is not wrong itself.
    let is_set = certificate.is_some() || key.is_some();
    Ok(is_set.then(|| CertificateFiles {
        certificate: certificate.unwrap_or_default(),
        key: key.unwrap_or_default(),
    }))
}

fn optional_field<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<HeaderName>, D::Error> {
    from_text(deserializer, |text| match text {
        "" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| "it is no name of a field"),
    })
}

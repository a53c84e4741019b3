//! The certificates of the hosts, as handshakes use them.

use crate::challenges::Challenges;
use crate::config::AcmeConfig;
use crate::error::Error;
use crate::folder::{Folder, Stamp};
use crate::keys::{self, Issued};
use crate::status::HostStatus;
use larder_acme::{CertificateHost, UnixTime};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificates of all hosts, which [`Renewals`](crate::Renewals) replaces while connections
/// run. Empty if no host gets one by ACME.
#[derive(Default)]
pub struct Certificates {
    hosts: RwLock<Hosts>,
    pub(crate) challenges: Challenges,
}

#[derive(Default)]
struct Hosts {
    folder: PathBuf,
    by_name: HashMap<String, Entry>,
    /// The host for clients that name none, and no certificate of a file is there for them.
    fallback: Option<String>,
}

struct Entry {
    key: Arc<CertifiedKey>,
    issued: Option<Issued>,
    /// That of the file which `issued` is from.
    stamp: Option<Stamp>,
    status: HostStatus,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

impl Certificates {
    /// Uses the hosts of this configuration: their certificates from its folder, and self-signed
    /// ones until the first come. Hosts that stay keep their figures.
    ///
    /// # Errors
    /// One line: the folder cannot be used, or no key can be made. Nothing has changed then.
    pub fn set_hosts(&self, config: &AcmeConfig) -> Result<(), Error> {
        let folder = Folder::open(&config.folder)?;
        let mut by_name = HashMap::new();
        for host in &config.hosts {
            let entry = Entry::new(host, &folder)?;
            by_name.insert(host.as_str().to_owned(), entry);
        }
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        for (name, entry) in &mut by_name {
            if let Some(former) = hosts.by_name.remove(name) {
                entry.keep_figures(former.status);
            }
        }
        // A client that connects to an address names no host (RFC 6066 §3).
        let address = config.hosts.iter().find(|host| host.address().is_some());
        let fallback = address.or(config.hosts.first());
        *hosts = Hosts {
            folder: config.folder.clone(),
            by_name,
            fallback: fallback.map(|host| host.as_str().to_owned()),
        };
        self.challenges.set(&config.hosts);
        Ok(())
    }

    /// Uses no host any more.
    pub fn clear(&self) {
        *self.hosts.write().unwrap_or_else(PoisonError::into_inner) = Hosts::default();
        self.challenges.clear();
    }

    /// Returns the certificate of a host in lower case, and true if it is the authority's.
    pub fn of_name(&self, name: &str) -> Option<(Arc<CertifiedKey>, bool)> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let entry = hosts.by_name.get(name)?;
        Some((Arc::clone(&entry.key), entry.issued.is_some()))
    }

    /// Returns the certificate for clients that name no host.
    pub fn fallback(&self) -> Option<Arc<CertifiedKey>> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let entry = hosts.by_name.get(hosts.fallback.as_ref()?)?;
        Some(Arc::clone(&entry.key))
    }

    /// Returns the certificate that answers the challenge `tls-alpn-01` of this server name; `None`
    /// if none is open.
    pub fn challenge(&self, server_name: &str) -> Option<Arc<CertifiedKey>> {
        self.challenges.alpn(server_name)
    }

    /// Returns the answer to the challenge `http-01` with this token; `None` if none is open.
    pub fn answer(&self, token: &str) -> Option<String> {
        self.challenges.http(token)
    }

    /// Returns what is known of each host, by name.
    pub fn status(&self) -> Vec<HostStatus> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = hosts
            .by_name
            .values()
            .map(|entry| entry.status.clone())
            .collect();
        all.sort_by(|one, other| one.host.cmp(&other.host));
        all
    }

    /// Reads the file of a host again if it has changed. Returns true if it has another
    /// certificate.
    pub(crate) fn look(&self, host: &CertificateHost, folder: &Folder) -> bool {
        let stamp = folder.stamp(&host.file_name());
        let has_changed = |entry: &Entry| entry.stamp != stamp && stamp.is_some();
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        if !hosts.by_name.get(host.as_str()).is_some_and(has_changed) {
            return false;
        }
        drop(hosts);
        let issued = read(host, folder);
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = hosts.by_name.get_mut(host.as_str()) else {
            return false;
        };
        entry.stamp = stamp;
        match issued {
            Some(issued) => entry.install(issued),
            None => false,
        }
    }

    /// Returns what the authority's certificate says, if the host has one.
    pub(crate) fn facts(&self, host: &CertificateHost) -> Option<larder_acme::CertificateFacts> {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let issued = hosts.by_name.get(host.as_str())?.issued.as_ref()?;
        Some(issued.facts.clone())
    }

    /// Changes the status of a host.
    pub(crate) fn record(&self, host: &CertificateHost, change: impl FnOnce(&mut HostStatus)) {
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = hosts.by_name.get_mut(host.as_str()) {
            change(&mut entry.status);
        }
    }

    /// Returns true if its certificates are from this folder.
    pub(crate) fn are_from(&self, folder: &std::path::Path) -> bool {
        let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
        hosts.folder == folder
    }
}

impl Entry {
    fn new(host: &CertificateHost, folder: &Folder) -> Result<Entry, Error> {
        let stamp = folder.stamp(&host.file_name());
        let issued = stamp.and_then(|_| read(host, folder));
        let key = match &issued {
            Some(issued) => Arc::clone(&issued.key),
            None => keys::self_signed(host)?,
        };
        let status = HostStatus {
            host: host.as_str().to_owned(),
            validity: issued.as_ref().map(|issued| issued.facts.validity),
            renewal: None,
            orders: 0,
            failures: 0,
            last_error: None,
        };
        Ok(Entry {
            key,
            issued,
            stamp,
            status,
        })
    }

    fn keep_figures(&mut self, former: HostStatus) {
        (self.status.orders, self.status.failures) = (former.orders, former.failures);
        self.status.last_error = former.last_error;
    }

    /// Returns false if it is the present one.
    fn install(&mut self, issued: Issued) -> bool {
        let is_other = self
            .issued
            .as_ref()
            .is_none_or(|former| former.key.cert != issued.key.cert);
        self.key = Arc::clone(&issued.key);
        self.status.validity = Some(issued.facts.validity);
        self.issued = Some(issued);
        is_other
    }
}

/// Reads the file of a host. One that cannot be used is as none: another is ordered.
fn read(host: &CertificateHost, folder: &Folder) -> Option<Issued> {
    let name = host.file_name();
    let pem = match folder.read(&name) {
        Ok(pem) => pem?,
        Err(error) => {
            tracing::error!(%host, %error, "the file of a certificate cannot be read");
            return None;
        }
    };
    let issued = keys::read(&pem);
    if issued.is_none() {
        tracing::error!(%host, name, "the file of a certificate cannot be used: another one is ordered");
    }
    issued
}

/// Returns the time of the system's clock.
pub(crate) fn now() -> UnixTime {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    UnixTime(since.map_or(0, |since| since.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(folder: &std::path::Path, hosts: &[&str]) -> AcmeConfig {
        let host = |text: &&str| CertificateHost::parse(text).unwrap();
        AcmeConfig {
            folder: folder.to_owned(),
            ..AcmeConfig::new(hosts.iter().map(host).collect())
        }
    }

    /// Failure: a node without a certificate of the authority refuses handshakes, or one that has
    /// it shows the self-signed one.
    #[test]
    fn a_host_has_no_certificate_or_the_wrong_one() {
        let site = tempfile::tempdir().unwrap();
        let all = Certificates::default();
        assert!(all.of_name("a.test").is_none() && all.fallback().is_none());
        all.set_hosts(&config(site.path(), &["a.test", "127.0.0.1"]))
            .unwrap();
        let (self_signed, is_issued) = all.of_name("a.test").unwrap();
        assert!(!is_issued);
        assert!(all.of_name("b.test").is_none());
        let fallback = all.fallback().unwrap();
        assert_eq!(fallback.cert, all.of_name("127.0.0.1").unwrap().0.cert);

        // What another node writes is used; what is broken is not.
        let host = CertificateHost::parse("a.test").unwrap();
        let folder = Folder::open(site.path()).unwrap();
        assert!(!all.look(&host, &folder));
        folder.write(&host.file_name(), b"no certificate").unwrap();
        assert!(!all.look(&host, &folder));
        assert_eq!(all.of_name("a.test").unwrap().0.cert, self_signed.cert);
        let pem = example_pem(&host);
        folder.write(&host.file_name(), pem.as_bytes()).unwrap();
        assert!(all.look(&host, &folder));
        let (issued, is_issued) = all.of_name("a.test").unwrap();
        assert!(is_issued && issued.cert != self_signed.cert);
        assert!(all.status()[1].validity.is_some());

        // A restart, or a reload, finds it.
        let again = Certificates::default();
        again.set_hosts(&config(site.path(), &["a.test"])).unwrap();
        assert_eq!(again.of_name("a.test").unwrap().0.cert, issued.cert);
    }

    fn example_pem(host: &CertificateHost) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![host.as_str().to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        format!("{}{}", key.serialize_pem(), certificate.pem())
    }
}

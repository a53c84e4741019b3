//! The answers to the authority's challenges, while they are open.
//!
//! The authority asks any node that the host's name leads to. So each answer is also a file of the
//! shared folder, which the thread `acme` of each node reads again and again. A request or a
//! handshake looks only at the memory: a folder that hangs holds up no client, and no client causes
//! work there.

use crate::folder::Folder;
use crate::keys;
use crate::limits;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use larder_acme::{CertificateHost, is_token};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The answer to one challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Of `http-01`: the token, and the text.
    Http { token: String, text: String },
    /// Of `tls-alpn-01`: the digest of the text.
    Alpn {
        host: CertificateHost,
        digest: Vec<u8>,
    },
}

/// The open challenges of this node, and those of others as of the last look.
#[derive(Default)]
pub(crate) struct Challenges(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Those of this node, by the names of their files.
    own: HashMap<String, String>,
    /// Those in the folder, in the same way.
    shared: HashMap<String, String>,
    /// The hosts by the server names of `tls-alpn-01`.
    hosts: HashMap<String, CertificateHost>,
}

impl Challenges {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers for these hosts.
    pub(crate) fn set(&self, hosts: &[CertificateHost]) {
        let named = |host: &CertificateHost| (host.challenge_server_name(), host.clone());
        self.inner().hosts = hosts.iter().map(named).collect();
    }

    /// Answers nothing any more.
    pub(crate) fn clear(&self) {
        *self.inner() = Inner::default();
    }

    /// Opens a challenge. Its file is on the disk when this returns.
    pub(crate) fn open(&self, folder: &Folder, answer: &Answer) -> io::Result<()> {
        let (name, text) = file(answer);
        folder.write(&name, text.as_bytes())?;
        self.inner().own.insert(name, text);
        Ok(())
    }

    /// Closes a challenge.
    pub(crate) fn close(&self, folder: &Folder, answer: &Answer) {
        let (name, _) = file(answer);
        let mut inner = self.inner();
        inner.own.remove(&name);
        inner.shared.remove(&name);
        drop(inner);
        if let Err(error) = folder.remove(&name) {
            tracing::debug!(name, %error, "the file of a challenge stays");
        }
    }

    /// Reads the challenges of the folder.
    ///
    /// # Errors
    /// The folder cannot be read. The answers of the last look stay.
    pub(crate) fn look(&self, folder: &Folder) -> io::Result<()> {
        let is_wanted = |name: &str| is_token(name) || CertificateHost::is_challenge_name(name);
        let names = folder.names(limits::CHALLENGE_FILES, is_wanted)?;
        // Without the lock: the folder may be on a slow disk.
        let mut known = self.inner().shared.clone();
        let mut found = HashMap::new();
        for name in names {
            // A token has one answer. A host has one after the other.
            let text = match known.remove(&name) {
                Some(text) if is_token(&name) => Some(text),
                // It may be closed meanwhile.
                _ => folder.read_short(&name, limits::CHALLENGE_BYTES),
            };
            found.extend(text.map(|text| (name, text)));
        }
        self.inner().shared = found;
        Ok(())
    }

    /// Returns the text for the token of `http-01`; `None` if no challenge of that name is open.
    pub(crate) fn http(&self, token: &str) -> Option<String> {
        is_token(token).then(|| self.find(token))?
    }

    /// Returns the certificate for a server name of `tls-alpn-01`.
    pub(crate) fn alpn(&self, server_name: &str) -> Option<Arc<CertifiedKey>> {
        let name = server_name.to_ascii_lowercase();
        let host = self.inner().hosts.get(&name).cloned()?;
        let text = self.find(&host.challenge_name())?;
        let digest = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        keys::challenge(&host, digest.as_slice().try_into().ok()?).ok()
    }

    fn find(&self, name: &str) -> Option<String> {
        let inner = self.inner();
        let found = inner.own.get(name).or_else(|| inner.shared.get(name));
        found.cloned()
    }
}

/// Returns the file of an answer: its name and content.
fn file(answer: &Answer) -> (String, String) {
    match answer {
        Answer::Http { token, text } => (token.clone(), text.clone()),
        Answer::Alpn { host, digest } => {
            (host.challenge_name(), BASE64_URL_SAFE_NO_PAD.encode(digest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: the authority asks the other node, which does not know the challenge; or a closed
    /// one is answered.
    #[test]
    fn another_node_does_not_know_a_challenge() {
        let site = tempfile::tempdir().unwrap();
        let folder = Folder::open(site.path()).unwrap().challenges();
        let host = CertificateHost::parse("example.com").unwrap();
        let [one, other] = [(); 2].map(|()| Challenges::default());
        one.set(std::slice::from_ref(&host));
        other.set(std::slice::from_ref(&host));
        let answers = [
            Answer::Http {
                token: "token".to_owned(),
                text: "token.thumb".to_owned(),
            },
            Answer::Alpn {
                host,
                digest: vec![7; 32],
            },
        ];
        for answer in &answers {
            one.open(&folder, answer).unwrap();
        }
        assert_eq!(one.http("token").as_deref(), Some("token.thumb"), "at once");
        for node in [&one, &other] {
            node.look(&folder).unwrap();
            assert_eq!(node.http("token").as_deref(), Some("token.thumb"));
            assert_eq!(node.http("other"), None);
            assert_eq!(node.http("../example.com.pem"), None);
            assert!(node.alpn("Example.com").is_some());
            assert!(node.alpn("example.org").is_none());
        }
        // A file of something else.
        folder.write("example.com.alpn", b"AQID").unwrap();
        other.look(&folder).unwrap();
        assert!(other.alpn("example.com").is_none());
        for answer in &answers {
            one.close(&folder, answer);
        }
        other.look(&folder).unwrap();
        for node in [&one, &other] {
            assert_eq!(node.http("token"), None);
            assert!(node.alpn("example.com").is_none());
        }
    }

    /// Failure: a request or a handshake waits for a folder that hangs, or clients that name tokens
    /// keep the node from answering the authority.
    #[test]
    fn a_request_waits_for_the_folder() {
        let site = tempfile::tempdir().unwrap();
        let folder = Folder::open(site.path()).unwrap().challenges();
        let node = Challenges::default();
        folder.write("open", b"open.thumb").unwrap();
        node.look(&folder).unwrap();
        std::fs::remove_dir_all(site.path()).unwrap();
        for number in 0..1000 {
            assert_eq!(node.http(&format!("{number}")), None);
        }
        assert_eq!(node.http("open").as_deref(), Some("open.thumb"));
        node.look(&folder).unwrap_err();
        assert_eq!(node.http("open").as_deref(), Some("open.thumb"));
    }

    /// Failure: another user of the folder makes the node read without bound.
    #[test]
    fn many_or_large_files_are_read_without_bound() {
        let site = tempfile::tempdir().unwrap();
        let folder = Folder::open(site.path()).unwrap().challenges();
        for number in 0..limits::CHALLENGE_FILES + 5 {
            std::fs::write(site.path().join(format!("challenges/{number}")), "a").unwrap();
        }
        let node = Challenges::default();
        node.look(&folder).unwrap();
        assert_eq!(node.inner().shared.len(), limits::CHALLENGE_FILES);
        let other = Folder::open(&site.path().join("other")).unwrap();
        let large = vec![b'a'; limits::CHALLENGE_BYTES + 1];
        other.write("large", &large).unwrap();
        other.write("binary", &[0xff]).unwrap();
        other.write("small", b"a").unwrap();
        node.look(&other).unwrap();
        let inner = node.inner();
        assert_eq!(inner.shared.keys().collect::<Vec<_>>(), ["small"]);
    }
}

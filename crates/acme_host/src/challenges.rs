//! The answers to the authority's challenges, while they are open.
//!
//! The authority asks any node that the host's name leads to. So each answer is also a file of the
//! shared folder, and a node that does not know a challenge looks there.

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
use std::time::{Duration, Instant};

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

/// The open challenges of this node, and the way to those of others.
#[derive(Default)]
pub(crate) struct Challenges(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The folder with the challenges of all nodes.
    folder: Option<Folder>,
    /// Those of this node, by the names of their files.
    own: HashMap<String, String>,
    /// The hosts by the server names of `tls-alpn-01`.
    hosts: HashMap<String, CertificateHost>,
    /// The looks at the folder in the second that began then.
    looks: Option<(Instant, u32)>,
}

impl Challenges {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers for these hosts, from this folder.
    pub(crate) fn set(&self, folder: Folder, hosts: &[CertificateHost]) {
        let mut inner = self.inner();
        let named = |host: &CertificateHost| (host.challenge_server_name(), host.clone());
        inner.hosts = hosts.iter().map(named).collect();
        inner.folder = Some(folder);
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
        self.inner().own.remove(&name);
        if let Err(error) = folder.remove(&name) {
            tracing::debug!(name, %error, "the file of a challenge stays");
        }
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
        let mut inner = self.inner();
        if let Some(text) = inner.own.get(name) {
            return Some(text.clone());
        }
        let folder = inner.folder.clone()?;
        if !inner.may_look(Instant::now()) {
            return None;
        }
        // Without the lock: the folder may be on a slow disk.
        drop(inner);
        String::from_utf8(folder.read(name).ok()??).ok()
    }
}

impl Inner {
    /// Counts a look at the folder; false if there were too many in this second.
    fn may_look(&mut self, now: Instant) -> bool {
        let second = Duration::from_secs(1);
        match &mut self.looks {
            Some((since, count)) if now.duration_since(*since) < second => {
                *count += 1;
                *count <= limits::CHALLENGE_LOOKS
            }
            looks => {
                *looks = Some((now, 1));
                true
            }
        }
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
        one.set(folder.clone(), std::slice::from_ref(&host));
        other.set(folder.clone(), std::slice::from_ref(&host));
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
        for node in [&one, &other] {
            assert_eq!(node.http("token").as_deref(), Some("token.thumb"));
            assert_eq!(node.http("other"), None);
            assert_eq!(node.http("../example.com.pem"), None);
            assert!(node.alpn("Example.com").is_some());
            assert!(node.alpn("example.org").is_none());
        }
        // A file of something else.
        folder.write("example.com.alpn", b"AQID").unwrap();
        assert!(other.alpn("example.com").is_none());
        for answer in &answers {
            one.close(&folder, answer);
        }
        for node in [&one, &other] {
            assert_eq!(node.http("token"), None);
            assert!(node.alpn("example.com").is_none());
        }
    }

    /// Failure: clients that name tokens make the node read the folder without bound.
    #[test]
    fn unknown_tokens_read_the_folder_without_bound() {
        let (mut inner, now) = (Inner::default(), Instant::now());
        let looks = (0..1000).filter(|_| inner.may_look(now)).count();
        assert_eq!(looks, limits::CHALLENGE_LOOKS as usize);
        assert!(inner.may_look(now + Duration::from_secs(1)));
    }
}

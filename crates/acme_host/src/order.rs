//! One order of a certificate, from its lock to its file.

use crate::authority::{AccountError, Authority};
use crate::certificates::{Certificates, now};
use crate::challenges::Answer;
use crate::config::ChallengeKind;
use crate::folder::Folder;
use crate::keys;
use crate::limits;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Identifier, NewOrder,
    Order, OrderStatus, Problem, RetryPolicy,
};
use larder_acme::{CertificateFacts, CertificateHost, Failure};
use rustls::pki_types::Der;
use std::sync::Arc;
use std::{fmt, io};

/// What the orders of all hosts share.
pub(crate) struct OrderContext {
    pub(crate) authority: Authority,
    pub(crate) folder: Folder,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) profile: Option<String>,
}

/// The end of an order that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// This node has the certificate.
    Here,
    /// Another process has ordered it meanwhile.
    Elsewhere,
    /// Another process orders it now.
    Busy,
}

/// The reason why there is no certificate: one line.
#[derive(Debug)]
pub(crate) struct OrderError {
    pub(crate) failure: Failure,
    pub(crate) text: String,
}

/// The reason why one attempt failed.
enum AttemptError {
    Account(AccountError),
    Authority(instant_acme::Error),
    /// The authority refuses the host, or offers no challenge that this node answers.
    Refused(String),
    /// A file of this node.
    Local(String),
}

impl OrderContext {
    /// Orders the certificate of a host. Tries the ways to show that the host is this node in their
    /// order: the first that the authority offers counts.
    pub(crate) async fn order(
        &self,
        host: &CertificateHost,
        kinds: &[ChallengeKind],
    ) -> Result<Ordered, OrderError> {
        let local = |error: io::Error| OrderError {
            failure: Failure::Unreachable,
            text: format!("{}: {error}", host.file_name()),
        };
        let Some(_lock) = self.folder.lock(&host.lock_name()).map_err(local)? else {
            return Ok(Ordered::Busy);
        };
        if self.certificates.look(host, &self.folder) {
            return Ok(Ordered::Elsewhere);
        }
        let request = keys::request(host).map_err(|error| OrderError {
            failure: Failure::Unreachable,
            text: error.to_string(),
        })?;
        let mut replaced = self.certificates.facts(host);
        let mut tries = 0;
        let chain = loop {
            tries += 1;
            let attempt = self.attempt(host, kinds, &request.der, replaced.as_ref());
            let error = match attempt.await {
                Ok(chain) => break chain,
                Err(error) if tries < limits::TRIES => error,
                Err(error) => return Err(error.into()),
            };
            // What another attempt mends at once.
            match error.problem_type() {
                "badNonce" => {}
                "accountDoesNotExist" => self.authority.forget_account().await,
                // The authority does not know the former certificate, because another authority
                // has issued it, or its successor was ordered already.
                kind if !kind.is_empty() && replaced.is_some() => replaced = None,
                _ => return Err(error.into()),
            }
        };
        let pem = format!("{}{chain}", request.key_pem);
        install(&self.certificates, &self.folder, host, &pem)?;
        Ok(Ordered::Here)
    }

    async fn attempt(
        &self,
        host: &CertificateHost,
        kinds: &[ChallengeKind],
        request: &[u8],
        replaced: Option<&CertificateFacts>,
    ) -> Result<String, AttemptError> {
        let account = self.authority.account().await?;
        let identifiers = [match host.address() {
            None => Identifier::Dns(host.as_str().to_owned()),
            Some(address) => Identifier::Ip(address),
        }];
        let mut order = self.begin(&account, &identifiers, replaced).await?;
        let mut open = OpenChallenges {
            folder: self.folder.challenges(),
            certificates: &self.certificates,
            answers: Vec::new(),
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => return Err(AttemptError::Refused(format!("it is {status:?}"))),
            }
            let offered: Vec<_> = authorization
                .challenges
                .iter()
                .map(|challenge| challenge.r#type.clone())
                .collect();
            let kind = kinds.iter().map(|kind| type_of(*kind));
            let Some(kind) = kind.into_iter().find(|kind| offered.contains(kind)) else {
                let text =
                    format!("the authority offers no challenge of {kinds:?}, but {offered:?}");
                return Err(AttemptError::Refused(text));
            };
            let Some(mut challenge) = authorization.challenge(kind.clone()) else {
                continue;
            };
            let authorized = challenge.key_authorization();
            open.add(if kind == ChallengeType::Http01 {
                Answer::Http {
                    token: challenge.token.clone(),
                    text: authorized.as_str().to_owned(),
                }
            } else {
                Answer::Alpn {
                    host: host.clone(),
                    digest: authorized.digest().as_ref().to_owned(),
                }
            })?;
            // The authority may ask another node at once.
            tokio::time::sleep(limits::CHALLENGE_WAIT).await;
            challenge.set_ready().await?;
        }
        let retries = RetryPolicy::default().timeout(limits::CHECK);
        match order.poll_ready(&retries).await {
            Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
            // The order says that it failed, and its challenge says why.
            Ok(_) => return Err(AttemptError::Refused(reason(&mut order).await)),
            Err(instant_acme::Error::Api(problem)) if !is_bad_nonce(&problem) => {
                return Err(AttemptError::Refused(reason(&mut order).await));
            }
            Err(error) => return Err(error.into()),
        }
        drop(open);
        order.finalize_csr(request).await?;
        Ok(order.poll_certificate(&retries).await?)
    }

    async fn begin(
        &self,
        account: &Account,
        identifiers: &[Identifier],
        replaced: Option<&CertificateFacts>,
    ) -> Result<Order, AttemptError> {
        let mut wanted = NewOrder::new(identifiers);
        if let Some(profile) = &self.profile {
            wanted = wanted.profile(profile);
        }
        if let Some(identifier) = replaced.and_then(identifier) {
            match account.new_order(&wanted.replaces(identifier)).await {
                // The authority does not offer it.
                Err(instant_acme::Error::Unsupported(_)) => {}
                begun => return Ok(begun?),
            }
            wanted = NewOrder::new(identifiers);
            if let Some(profile) = &self.profile {
                wanted = wanted.profile(profile);
            }
        }
        Ok(account.new_order(&wanted).await?)
    }

    /// Asks the authority when the certificate of a host is to be renewed, and when to ask again.
    pub(crate) async fn window(&self, host: &CertificateHost) -> Option<RenewalWindow> {
        let facts = self.certificates.facts(host)?;
        let identifier = identifier(&facts)?;
        let account = self.authority.account().await.ok()?;
        match account.renewal_info(&identifier).await {
            Ok((info, again)) => Some(RenewalWindow {
                start: info.suggested_window.start.unix_timestamp(),
                end: info.suggested_window.end.unix_timestamp(),
                again,
            }),
            Err(error) => {
                let error = line(&error.to_string());
                tracing::debug!(%host, error, "the authority names no time of renewal");
                None
            }
        }
    }
}

/// Writes what the authority has issued, and uses it. What is of no use is not written: what is
/// there stays.
fn install(
    certificates: &Certificates,
    folder: &Folder,
    host: &CertificateHost,
    pem: &str,
) -> Result<(), OrderError> {
    let error = |failure, text| OrderError { failure, text };
    let name = host.file_name();
    if let Err(why) = keys::read_for(host, pem.as_bytes(), now()) {
        let text = format!("the authority's certificate is refused: {why}");
        return Err(error(Failure::Refused, text));
    }
    let of_file = |why: io::Error| error(Failure::Unreachable, format!("{name}: {why}"));
    folder.write(&name, pem.as_bytes()).map_err(of_file)?;
    if certificates.look(host, folder) {
        Ok(())
    } else {
        let text = format!("{name}: the authority's certificate cannot be used");
        Err(error(Failure::Refused, text))
    }
}

/// The window in which an authority suggests to renew a certificate: seconds since 1970.
pub(crate) struct RenewalWindow {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) again: std::time::Duration,
}

/// The open challenges of one order. They are closed when it ends, however it ends.
struct OpenChallenges<'a> {
    folder: Folder,
    certificates: &'a Certificates,
    answers: Vec<Answer>,
}

impl OpenChallenges<'_> {
    fn add(&mut self, answer: Answer) -> Result<(), AttemptError> {
        let challenges = &self.certificates.challenges;
        challenges
            .open(&self.folder, &answer)
            .map_err(|error| AttemptError::Local(format!("challenges: {error}")))?;
        self.answers.push(answer);
        Ok(())
    }
}

impl Drop for OpenChallenges<'_> {
    fn drop(&mut self) {
        for answer in &self.answers {
            self.certificates.challenges.close(&self.folder, answer);
        }
    }
}

fn type_of(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http01 => ChallengeType::Http01,
        ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
    }
}

/// Returns the identifier of a certificate (RFC 9773 §4.1); `None` if it does not name its
/// authority's key.
fn identifier(facts: &CertificateFacts) -> Option<CertificateIdentifier<'static>> {
    let key = Der::from(facts.authority_key.clone()?);
    let serial = Der::from(facts.serial.clone());
    Some(CertificateIdentifier::new(key, serial).into_owned())
}

/// Returns the authority's reason for an invalid order.
async fn reason(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Ok(state) = authorization.refresh().await
            && let Some(error) = state.challenges.iter().find_map(|one| one.error.as_ref())
        {
            return said(error);
        }
    }
    "the authority does not say why".to_owned()
}

fn said(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().map(short).unwrap_or_default();
    let detail = problem.detail.as_deref().unwrap_or_default();
    line(&format!("{kind}: {detail}"))
}

/// Returns one short line, whatever an authority sends: it goes to the log, `/status` and the
/// console, and stays in memory for each host.
fn line(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars()
        .take(limits::REASON_CHARACTERS)
        .map(printable)
        .collect()
}

fn is_bad_nonce(problem: &Problem) -> bool {
    problem.r#type.as_deref().map(short) == Some("badNonce")
}

/// Returns the name of an error of RFC 8555 §6.7.
fn short(kind: &str) -> &str {
    kind.strip_prefix("urn:ietf:params:acme:error:")
        .unwrap_or(kind)
}

impl AttemptError {
    fn problem_type(&self) -> &str {
        let error = match self {
            AttemptError::Authority(error)
            | AttemptError::Account(AccountError::Authority(error)) => error,
            _ => return "",
        };
        match error {
            instant_acme::Error::Api(problem) => problem.r#type.as_deref().map_or("", short),
            _ => "",
        }
    }
}

impl From<AttemptError> for OrderError {
    fn from(error: AttemptError) -> OrderError {
        let (failure, text) = match error {
            AttemptError::Refused(text) => (Failure::Refused, text),
            AttemptError::Local(text) | AttemptError::Account(AccountError::Local(text)) => {
                (Failure::Unreachable, text)
            }
            AttemptError::Authority(error)
            | AttemptError::Account(AccountError::Authority(error)) => match &error {
                instant_acme::Error::Api(problem) => {
                    let is_own =
                        problem.status.is_some_and(|status| status >= 500) || is_bad_nonce(problem);
                    let failure = if is_own {
                        Failure::Unreachable
                    } else {
                        Failure::Refused
                    };
                    (failure, said(problem))
                }
                error => (Failure::Unreachable, error.to_string()),
            },
        };
        let text = line(&text);
        OrderError { failure, text }
    }
}

impl From<instant_acme::Error> for AttemptError {
    fn from(error: instant_acme::Error) -> AttemptError {
        AttemptError::Authority(error)
    }
}

impl From<AccountError> for AttemptError {
    fn from(error: AccountError) -> AttemptError {
        AttemptError::Account(error)
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AcmeConfig;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// Failure: an answer of no use takes the good certificate away, or is used.
    #[test]
    fn a_useless_certificate_replaces_a_good_one() {
        let site = tempfile::tempdir().unwrap();
        let folder = Folder::open(site.path()).unwrap();
        let pem = |name: &str, [from, until]: [i32; 2], of: Option<KeyPair>| {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(until, 1, 1);
            let certificate = params.self_signed(&key).unwrap();
            of.unwrap_or(key).serialize_pem() + &certificate.pem()
        };
        for name in ["a.test", "127.0.0.1"] {
            let host = CertificateHost::parse(name).unwrap();
            let certificates = Certificates::default();
            let config = AcmeConfig {
                folder: site.path().to_owned(),
                ..AcmeConfig::new(vec![host.clone()])
            };
            certificates.set_hosts(&config).unwrap();
            let good = pem(name, [2020, 2090], None);
            install(&certificates, &folder, &host, &good).unwrap();
            let shown = certificates.of_name(name).unwrap().0;
            let no_certificate = KeyPair::generate().unwrap().serialize_pem();
            for (wrong, why) in [
                (no_certificate, "read"),
                (pem("b.test", [2020, 2090], None), "another host"),
                (pem(name, [2020, 2021], None), "expired"),
                (pem(name, [2090, 2090], None), "never valid"),
                (pem(name, [2091, 2090], None), "never valid"),
                (
                    pem(name, [2020, 2090], KeyPair::generate().ok()),
                    "another key",
                ),
            ] {
                let error = install(&certificates, &folder, &host, &wrong).unwrap_err();
                assert!(error.text.contains(why), "{why}: {error}");
                let stays = folder.read(&host.file_name()).unwrap();
                assert_eq!(stays.as_deref(), Some(good.as_bytes()), "{why}");
                assert!(Arc::ptr_eq(&shown, &certificates.of_name(name).unwrap().0));
            }
        }
    }

    /// Failure: what an authority says fills the memory of the node, or writes lines of its own
    /// into the log.
    #[test]
    fn an_authority_says_too_much() {
        let long = "a\nb\u{85}\u{1b}[31m".repeat(10_000);
        let problem = serde_json::json!({ "type": long, "detail": long, "status": 400 });
        let problem: Problem = serde_json::from_value(problem).unwrap();
        let errors = [
            AttemptError::Authority(instant_acme::Error::Api(problem)),
            AttemptError::Authority(instant_acme::Error::Other(long.clone().into())),
            AttemptError::Account(AccountError::Local(long.clone())),
            AttemptError::Refused(long),
        ];
        for error in errors {
            let text = OrderError::from(error).text;
            assert!(text.contains("a b") && !text.contains(char::is_control));
            assert_eq!(text.chars().count(), limits::REASON_CHARACTERS);
        }
    }
}

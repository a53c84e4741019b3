//! The time for which certificates are valid, and the permissions of keys. That a key belongs to
//! its certificate is checked before, as at a start.

use super::permissions::{is_within_reach, mode};
use super::{Finding, Level, Topic};
use crate::config::Config;
use larder_proxy::{CertificateFiles, certificate_validity};
use std::path::Path;

const DAY_SECONDS: u64 = 86_400;

/// The days before the end of a certificate from which on it is a warning: programs that renew
/// certificates of 90 days do so 30 days before.
const SOON_DAYS: u64 = 14;

/// Looks at the certificates of `[http.tls]`. `now` is in seconds since 1970.
pub(super) fn findings(config: &Config, now: u64) -> Vec<Finding> {
    let tls = config.http.proxy.tls.as_ref();
    let Some(tls) = tls.filter(|tls| config.http.enabled && !tls.listen.is_empty()) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let pair = tls.certificate.iter().map(|pair| ("[http.tls]", pair));
    let others = tls.certificates.iter();
    let others = others.map(|pair| ("[[http.tls.certificates]]", pair));
    for (table, CertificateFiles { certificate, key }) in pair.chain(others) {
        findings.extend(period(
            &format!("{table} certificate"),
            certificate,
            now,
            false,
        ));
        findings.extend(readers(&format!("{table} key"), key));
    }
    if let Some(acme) = &tls.acme {
        for host in &acme.hosts {
            let path = acme.folder.join(host.file_name());
            let place = format!("[http.tls.acme] {}", host.as_str());
            match period(&place, &path, now, true) {
                Some(finding) => findings.push(finding),
                None => findings.push(Finding::new(
                    Level::Note,
                    Topic::Certificates,
                    place,
                    format!(
                        "{} has no certificate yet, or cannot be read by this user",
                        path.display()
                    ),
                    "a running node orders one; its log and the console tell why one is missing",
                )),
            }
        }
    }
    findings
}

/// Says for how long a certificate is valid; `None` if it cannot be read, which is found before.
fn period(place: &str, path: &Path, now: u64, is_renewed: bool) -> Option<Finding> {
    let validity = certificate_validity(path)?;
    let (begin, end) = (validity.not_before.0, validity.not_after.0);
    let path = path.display();
    let topic = Topic::Certificates;
    let remedy = if is_renewed {
        "a running node renews it; its log and the console tell why it has not"
    } else {
        "renew it; a running node reads the new files by itself"
    };
    Some(if end < now {
        let text = format!("{path}: it expired {} days ago", (now - end) / DAY_SECONDS);
        Finding::new(Level::Error, topic, place, text, remedy)
    } else if begin > now {
        let days = (begin - now) / DAY_SECONDS;
        let text = format!("{path}: it is not valid yet, for {days} more days");
        Finding::new(
            Level::Error,
            topic,
            place,
            text,
            "look at the clock of this machine",
        )
    } else {
        let days = (end - now) / DAY_SECONDS;
        let text = format!("{path}: valid for {days} more days");
        // A certificate of a week is not near its end at once.
        let soon = (SOON_DAYS * DAY_SECONDS).min((end - begin) / 6);
        if end - now < soon {
            Finding::new(Level::Warning, topic, place, text, remedy)
        } else {
            Finding::ok(topic, place, text)
        }
    })
}

/// Warns of a key that every user of the machine can read.
fn readers(place: &str, path: &Path) -> Option<Finding> {
    let mode = mode(path)?;
    let text = format!("{}: mode {mode:04o}", path.display());
    Some(if mode & 0o007 == 0 {
        Finding::ok(Topic::Certificates, place, text)
    } else if !is_within_reach(path) {
        let text = format!("{text}, in a folder that other users cannot enter");
        Finding::ok(Topic::Certificates, place, text)
    } else {
        let remedy = format!(
            "every user of this machine may use the key: `chmod o= {}`",
            path.display()
        );
        Finding::new(Level::Warning, Topic::Certificates, place, text, remedy)
    })
}

//! Verification of Data before it is cached, against content poisoning: Data under a prefix is
//! stored only if one of the prefix's keys signed it.
//!
//! A Data that does not verify is still forwarded. The consumer decides what to do with it, and if
//! a router dropped it, every mistake in the router's configuration would be an outage. But the
//! Data is not stored, and it does not replace stored Data, so no other consumer gets it from here.
//!
//! An anchor may sign everything under the prefix. A certificate that leads to the anchor
//! ([`Certificate::with_chained`]) may sign what is under its own identity. Only Data that the
//! policy wants to store is verified, on the thread that processes packets, and at most
//! [`VERIFICATIONS`] times in [`VERIFICATION_INTERVAL`]. After that, nothing under the prefix is
//! stored until the next interval. So a flood of forged Data costs a bounded time. With a second
//! tier (`tier.rs`) all Data that may be stored is verified, and again when it is read, since the
//! rules may have changed. Beyond the bound, the Interest goes upstream instead.

use crate::limits::{VERIFICATION_INTERVAL, VERIFICATIONS};
use larder_packet::{Certificate, Data, KeyLocator, Name};
use larder_units::Time;
use std::sync::Arc;

/// The trusted signer of the names under a prefix.
#[derive(Debug)]
pub struct VerifyRule {
    /// Data under this prefix
    pub prefix: Name,
    /// is signed by this key: the first signs everything, the others what is under their
    /// identities.
    pub certificates: Vec<Certificate>,
}

/// The rules, and how much was verified lately.
pub(crate) struct Verification {
    /// The longest prefix first.
    rules: Arc<[VerifyRule]>,
    interval_end: Time,
    left: u32,
}

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Trusted,
    /// No permitted key signed it.
    Untrusted,
    /// There was no time.
    Unknown,
}

impl Verification {
    /// The rules as [`Verification::of`] wants them.
    pub(crate) fn in_order(mut rules: Vec<VerifyRule>) -> Arc<[VerifyRule]> {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.prefix.as_name().component_count()));
        rules.into()
    }

    /// By these rules; `None` where there is none.
    pub(crate) fn of(rules: Arc<[VerifyRule]>) -> Option<Self> {
        (!rules.is_empty()).then_some(Verification {
            rules,
            interval_end: Time::ZERO,
            left: 0,
        })
    }

    pub(crate) fn judge(&mut self, now: Time, unix_seconds: u64, data: &Data<'_>) -> Verdict {
        let Some(rule) = self
            .rules
            .iter()
            .find(|rule| data.name.starts_with(rule.prefix.as_name()))
        else {
            return Verdict::Trusted;
        };
        let Some(KeyLocator::Name(locator)) = data.signature_info().key_locator else {
            return Verdict::Untrusted;
        };
        let may_sign = |(index, certificate): &(usize, &Certificate)| {
            certificate.is_meant_by(locator)
                && certificate.holds_at(unix_seconds)
                && (*index == 0 || data.name.starts_with(certificate.identity()))
        };
        let Some((_, certificate)) = rule.certificates.iter().enumerate().find(may_sign) else {
            return Verdict::Untrusted;
        };
        if now >= self.interval_end {
            (self.interval_end, self.left) = (now + VERIFICATION_INTERVAL, VERIFICATIONS);
        }
        match self.left.checked_sub(1) {
            None => Verdict::Unknown,
            Some(left) => {
                self.left = left;
                if data.verify(certificate).is_ok() {
                    Verdict::Trusted
                } else {
                    Verdict::Untrusted
                }
            }
        }
    }
}

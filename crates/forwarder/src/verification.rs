//! What must verify before it is cached, against content poisoning: Data under a prefix is stored
//! only where one of the prefix's keys signed it.
//!
//! A Data that does not verify is forwarded all the same: who asked for it is the judge of what it
//! is good for, and a router that drops would make every mistake in its own configuration an
//! outage. But it is not stored, and it does not take the place of what is: nobody else gets it
//! from here.
//!
//! An anchor signs anything under the prefix; a certificate that leads to it
//! ([`Certificate::with_chained`]) what is under its own identity. Only what the policy wants to
//! store is verified, on the thread of the packets, and at most [`VERIFICATIONS`] times in
//! [`VERIFICATION_INTERVAL`]: beyond that, nothing of the prefix is stored until the next. Forged
//! Data, which anybody who is asked can send, costs so much and no more. With a second tier
//! (`tier.rs`) all that may be stored is verified, and again when it is read there, since the rules
//! may have changed: beyond the bound the producer is asked instead.

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

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Trusted,
    /// Nobody who may has signed it.
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
        (!rules.is_empty()).then_some(Verification { rules, interval_end: Time::ZERO, left: 0 })
    }

    pub(crate) fn judge(&mut self, now: Time, unix_seconds: u64, data: &Data<'_>) -> Verdict {
        let Some(rule) = self.rules.iter().find(|rule| data.name.starts_with(rule.prefix.as_name())) else {
            return Verdict::Trusted;
        };
        let Some(KeyLocator::Name(locator)) = data.signature_info().key_locator else { return Verdict::Untrusted };
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
                if data.verify(certificate).is_ok() { Verdict::Trusted } else { Verdict::Untrusted }
            }
        }
    }
}

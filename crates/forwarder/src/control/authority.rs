//! Authorization of commands: rules, signatures, and protection against replay.
//!
//! Commands are signed in either form: the packet format 0.3's signed Interest, or the older one
//! whose timestamp, nonce, SignatureInfo and SignatureValue are four name components. A rule lets
//! anybody, or the holder of a certificate, use some modules of the protocol, from this machine
//! (`/localhost/nfd`) or from others (`/localhop/nfd`), as NFD's `authorizations` and
//! `localhop_security` do. Without rules every local application may do everything, as in NFD's
//! default configuration; a bare digest is checked, for it costs nothing.
//!
//! Against repetition: a command that comes again from a face is answered again, and not carried
//! out again; that memory is a face's own, so that applications that sign with the same digest
//! never get in each other's way. A command signed with a certificate's key must also say its time,
//! near this node's, and is remembered for as long as it might be played back from elsewhere. (NFD
//! wants each time later than the last instead, and so refuses one of two programs that use a key
//! in the same millisecond.)

use super::refusal::Refusal;
use crate::limits::{REPLAY_BYTES, REPLAY_COMMANDS, SIGNATURE_TIME_GRACE, SIGNED_COMMANDS};
use crate::tables::name_hash::NameHasher;
use bytes::Bytes;
use larder_packet::tlv::Tlv;
use larder_packet::{
    Certificate, DigestVerifier, Interest, KeyLocator, SignatureInfo, Verifier, types,
};
use std::collections::{BTreeSet, VecDeque};

/// A rule that allows a signer to use some modules.
#[derive(Debug)]
pub struct Rule {
    /// Whose commands.
    pub signer: Authorized,
    /// True if the rule is for applications on other machines (`/localhop/nfd`, where only `rib`
    /// answers); false if it is for applications on this one.
    pub localhop: bool,
    /// `faces`, `fib`, `rib`, `cs`, `strategy-choice`; `None` for all of them.
    pub modules: Option<Vec<String>>,
}

/// Whose commands a rule lets pass.
#[derive(Debug)]
pub enum Authorized {
    /// Every sender, whatever key signed the command.
    Anybody,
    /// Those signed with the key of this certificate while it holds.
    Certificate(Box<Certificate>),
}

/// The rules, and what certified signers sent lately.
pub(crate) struct Authority {
    rules: Vec<(Rule, SignedCommands)>,
}

impl Authority {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Authority {
            rules: rules
                .into_iter()
                .map(|rule| (rule, SignedCommands::default()))
                .collect(),
        }
    }

    /// Returns true if a rule lets applications on other machines use a module.
    pub(crate) fn allows_localhop(&self) -> bool {
        self.rules.iter().any(|(rule, _)| rule.localhop)
    }

    /// Checks that a signer with the right to use this module signed the command.
    pub(crate) fn authorize(
        &mut self,
        unix_millis: u64,
        interest: &Interest<'_>,
        hasher: &NameHasher,
        module: &[u8],
        localhop: bool,
    ) -> Result<(), Refusal> {
        let signed = Signed::of(interest)?;
        let mut refusal = None;
        for (rule, lately) in self
            .rules
            .iter_mut()
            .filter(|(rule, _)| rule.localhop == localhop)
        {
            if rule
                .modules
                .as_ref()
                .is_some_and(|modules| modules.iter().all(|name| name.as_bytes() != module))
            {
                continue;
            }
            match &rule.signer {
                Authorized::Anybody => return signed.check_digest(),
                Authorized::Certificate(certificate) => {
                    let result = signed
                        .check_certificate(certificate, unix_millis / 1000)
                        .and_then(|()| {
                            let hash = hasher.hash(&signed.portions.concat());
                            lately.accept(unix_millis, signed.time, hash)
                        });
                    match result {
                        Ok(()) => return Ok(()),
                        // An error about the right key is more useful than one about other keys.
                        Err(wrong) if signed.names(certificate) => refusal = Some(wrong),
                        Err(_) => {}
                    }
                }
            }
        }
        Err(refusal.unwrap_or_else(|| {
            forbidden("nobody whom this node trusts with that signed the command")
        }))
    }
}

fn forbidden(text: &str) -> Refusal {
    (403, text.to_owned())
}

/// Components of the older form: `/localhost/nfd/MODULE/VERB`, the parameters, and the four of the
/// signature.
const LEGACY_COMPONENTS: usize = 9;

/// A command's signature, in whichever form it came.
struct Signed<'a> {
    info: SignatureInfo<'a>,
    value: &'a [u8],
    portions: Vec<&'a [u8]>,
    /// Milliseconds since 1970.
    time: Option<u64>,
}

impl<'a> Signed<'a> {
    fn of(interest: &Interest<'a>) -> Result<Self, Refusal> {
        if let (Some(info), Some(value)) = (interest.signature_info(), interest.signature_value) {
            let portions = interest.signed_portion().ok_or_else(|| {
                forbidden("the digest of the command's parameters is not at the end of its name")
            })?;
            return Ok(Signed {
                time: info.time,
                info,
                value,
                portions: portions.to_vec(),
            });
        }
        // …/<ControlParameters>/<timestamp>/<nonce>/<SignatureInfo>/<SignatureValue>
        let name = interest.name;
        if name.component_count() > LEGACY_COMPONENTS {
            return Err(forbidden("the command's name goes on behind its signature"));
        }
        let (Some(time), Some(info), Some(value)) =
            (name.component(5), name.component(7), name.component(8))
        else {
            return Err(forbidden("the command is not signed"));
        };
        let info = SignatureInfo::decode(info.value)
            .map_err(|_| forbidden("the command's SignatureInfo is malformed"))?;
        let value = Tlv::only(value.value, types::SIGNATURE_VALUE)
            .map_err(|_| forbidden("the command's SignatureValue is malformed"))?;
        Ok(Signed {
            info,
            value: value.value,
            portions: vec![name.prefix(8).as_bytes()],
            time: time.as_number(),
        })
    }

    /// A bare digest is right; what other keys signed cannot be known.
    fn check_digest(&self) -> Result<(), Refusal> {
        match self.info.signature_type {
            types::DIGEST_SHA256 => DigestVerifier
                .verify(self.info.signature_type, &self.portions, self.value)
                .map_err(|_| forbidden("the command's digest is wrong")),
            _ => Ok(()),
        }
    }

    fn names(&self, certificate: &Certificate) -> bool {
        matches!(self.info.key_locator, Some(KeyLocator::Name(name)) if certificate.is_meant_by(name))
    }

    fn check_certificate(
        &self,
        certificate: &Certificate,
        unix_seconds: u64,
    ) -> Result<(), Refusal> {
        if !self.names(certificate) {
            return Err(forbidden("the command is signed with another key"));
        }
        if !certificate.holds_at(unix_seconds) {
            return Err(forbidden("the signer's certificate does not hold now"));
        }
        certificate
            .verify(self.info.signature_type, &self.portions, self.value)
            .map_err(|_| forbidden("the command's signature is wrong"))
    }
}

/// The commands of one certificate that were accepted within the grace, by time and keyed hash of
/// the signed bytes. The hash is not that of the name, because the same signed bytes fit under many
/// names: an ECDSA signature has a second form, and elements may follow a signature.
#[derive(Default)]
struct SignedCommands {
    seen: BTreeSet<(u64, u64)>,
    /// No command as old as this is accepted: it may have been forgotten.
    forgotten: u64,
}

impl SignedCommands {
    fn accept(&mut self, now: u64, time: Option<u64>, hash: u64) -> Result<(), Refusal> {
        let time =
            time.ok_or_else(|| forbidden("the command does not say its time (SignatureTime)"))?;
        let grace = SIGNATURE_TIME_GRACE.as_millis() as u64;
        if now.abs_diff(time) > grace {
            return Err(forbidden(
                "the command's time is not that of this node: are the clocks right?",
            ));
        }
        if time <= self.forgotten || !self.seen.insert((time, hash)) {
            return Err(forbidden("the command was sent before"));
        }
        let too_old = now.saturating_sub(grace);
        while self.seen.first().is_some_and(|(time, _)| *time < too_old)
            || self.seen.len() > SIGNED_COMMANDS
        {
            self.forgotten = self
                .seen
                .pop_first()
                .map_or(self.forgotten, |(time, _)| time);
        }
        Ok(())
    }
}

/// The commands that one face sent last, by the keyed hash of their names, which hold all that is
/// signed or its digest; with their responses.
#[derive(Default)]
pub(crate) struct Replay {
    seen: VecDeque<(u64, Bytes)>,
    /// Bytes of the responses.
    bytes: usize,
}

impl Replay {
    /// The response to a command that came before.
    pub(crate) fn answer(&self, hash: u64) -> Option<Bytes> {
        self.seen
            .iter()
            .find(|(seen, _)| *seen == hash)
            .map(|(_, response)| response.clone())
    }

    pub(crate) fn remember(&mut self, hash: u64, response: Bytes) {
        self.bytes += response.len();
        self.seen.push_back((hash, response));
        while self.seen.len() > REPLAY_COMMANDS || self.bytes > REPLAY_BYTES {
            self.bytes -= self
                .seen
                .pop_front()
                .map_or(self.bytes, |(_, gone)| gone.len());
        }
    }
}

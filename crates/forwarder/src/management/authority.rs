//! Who may command: the signature of a command, and the memory against its repetition.
//!
//! Commands are signed in either form: the packet format 0.3's signed Interest, or the older one whose timestamp, nonce, SignatureInfo and
//! SignatureValue are four name components. Any signer is believed on local faces, as in NFD's default configuration; a bare digest is
//! checked. A command that comes again is answered again, and not carried out again; the memory is a face's own, so that applications that
//! sign with the same digest never get in each other's way.

use super::Refusal;
use crate::limits::REPLAY_COMMANDS;
use bytes::Bytes;
use larder_packet::tlv::Tlv;
use larder_packet::{DigestVerifier, Interest, SignatureInfo, Verifier, types};
use std::collections::VecDeque;

/// Checks that the command is signed, in the newer or the older form, and that a bare digest is right.
pub(super) fn authenticate(interest: &Interest<'_>) -> Result<(), Refusal> {
    let refused = |text: &str| Err((403, text.to_owned()));
    if let (Some(info), Some(value)) = (interest.signature_info, interest.signature_value) {
        let Some(portions) = interest.signed_portion() else {
            return refused("the digest of the command's parameters is not at the end of its name");
        };
        return check_digest(&info, &portions, value);
    }
    // …/<ControlParameters>/<timestamp>/<nonce>/<SignatureInfo>/<SignatureValue>
    let name = interest.name;
    let (Some(info), Some(value)) = (name.component(7), name.component(8)) else {
        return refused("the command is not signed");
    };
    let Ok(info) = SignatureInfo::decode(info.value) else {
        return refused("the command's SignatureInfo is malformed");
    };
    let Ok(value) = Tlv::only(value.value, types::SIGNATURE_VALUE) else {
        return refused("the command's SignatureValue is malformed");
    };
    check_digest(&info, &[name.prefix(8).as_bytes()], value.value)
}

fn check_digest(info: &SignatureInfo<'_>, portions: &[&[u8]], value: &[u8]) -> Result<(), Refusal> {
    if info.signature_type != types::DIGEST_SHA256 {
        return Ok(());
    }
    DigestVerifier
        .verify(info.signature_type, portions, value)
        .map_err(|_| (403, "the command's digest is wrong".to_owned()))
}

/// The commands that one face sent last, by the keyed hash of their names, which hold all that is signed or its digest; with their responses.
#[derive(Default)]
pub(crate) struct Replay {
    seen: VecDeque<(u64, Bytes)>,
}

impl Replay {
    /// The response to a command that came before.
    pub(crate) fn answer(&self, hash: u64) -> Option<Bytes> {
        self.seen.iter().find(|(seen, _)| *seen == hash).map(|(_, response)| response.clone())
    }

    pub(crate) fn remember(&mut self, hash: u64, response: Bytes) {
        if self.seen.len() >= REPLAY_COMMANDS {
            self.seen.pop_front();
        }
        self.seen.push_back((hash, response));
    }
}

//! Commands of the NFD management protocol as packets, and the errors of their answers.

use crate::entropy;
use crate::error::ClientError;
use crate::limits;
use larder_packet::{
    ControlParameters, ControlResponse, Interest, InterestBuilder, Name, SignatureFreshness, Signer,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a signed command, and its name.
pub(super) fn signed_command(
    signer: &dyn Signer,
    is_local: bool,
    command: &str,
    parameters: &ControlParameters,
) -> Result<(Name, Vec<u8>), ClientError> {
    let mut name = management_name(is_local, command);
    name.push_generic(&parameters.encode());
    let [nonce, signature_nonce] = entropy::words();
    let time = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let signature_nonce = signature_nonce.to_be_bytes();
    let freshness = SignatureFreshness {
        nonce: Some(&signature_nonce),
        time: Some(u64::try_from(time).unwrap_or(u64::MAX)),
        seq_num: None,
    };
    let wire = InterestBuilder::new(&name)
        .must_be_fresh(true)
        .nonce(nonce as u32)
        .lifetime(limits::MANAGEMENT_LIFETIME)
        .application_parameters(&[])
        .sign(signer, freshness)
        .map_err(ClientError::Sign)?;
    // The answer's name starts with the command's, and the digest that the signature adds.
    let full_name = Interest::decode(&wire).map_or(name, |interest| interest.name.to_name());
    Ok((full_name, wire))
}

/// `/localhost/nfd/…`, or `/localhop/nfd/…` to a forwarder on another machine.
pub(super) fn management_name(is_local: bool, what: &str) -> Name {
    let scope = if is_local { "localhost" } else { "localhop" };
    let mut name = Name::root();
    for part in [scope, "nfd"].into_iter().chain(what.split('/')) {
        _ = name.push_generic(part.as_bytes());
    }
    name
}

/// Returns the error of a command that was refused.
pub(super) fn refusal(what: &str, response: &ControlResponse) -> ClientError {
    let reason = format!("{} {}", response.status_code, response.status_text);
    ClientError::ManagementRefused {
        what: what.to_owned(),
        reason,
    }
}

/// Returns the error of an answer that cannot be decoded.
pub(super) fn unreadable(what: &str, error: &larder_packet::DecodeError) -> ClientError {
    ClientError::ManagementRefused {
        what: what.to_owned(),
        reason: format!("its answer cannot be read: {error}"),
    }
}

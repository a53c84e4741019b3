//! Packets of Named Data Networking: TLV, names, Interest, Data, NDNLPv2, signatures.
//!
//! Read [`Interest`] and [`Data`] first: views over borrowed bytes that decode without allocating.
#![forbid(unsafe_code)]

pub mod limits;
pub mod tlv;
pub mod types;

mod data;
mod der;
mod fragment;
mod interest;
mod keys;
mod lp;
mod mgmt;
mod name;
mod sign;
mod uri;

pub use data::{Data, DataBuilder};
pub use fragment::{FragmentDrop, FragmentError, Fragmenter, Reassembled, Reassembler, ReassemblyCounters};
pub use interest::{
    DEFAULT_INTEREST_LIFETIME, Interest, InterestBuilder, ParametersDigestError, SignatureFreshness, with_nonce,
};
pub use keys::{
    EcdsaSigner, Ed25519Signer, HmacSigner, HmacVerifier, KeyError, PublicKeyVerifier, signer_from_pem,
    verifier_from_pem,
};
pub use lp::{LpHeader, LpPacket, NackReason, PitToken, encode_lp, lp_overhead};
pub use mgmt::{ControlParameters, ControlResponse};
pub use name::{Component, Components, Name, NameRef};
pub use ring::rand::SystemRandom;
pub use sign::{DigestSigner, DigestVerifier, KeyLocator, SignError, SignatureInfo, Signer, Verifier, VerifyError};
pub use tlv::{DecodeError, DecodeErrorKind};
pub use uri::NameParseError;

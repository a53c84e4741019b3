//! Packets of Named Data Networking: TLV, names, Interest, Data, NDNLPv2, signatures.
//!
//! Read [`Interest`] and [`Data`] first: views over borrowed bytes that decode without allocating.
#![forbid(unsafe_code)]

pub mod limits;
pub mod tlv;
pub mod types;

mod data;
mod interest;
mod lp;
mod name;
mod sign;
mod uri;

pub use data::{Data, DataBuilder};
pub use interest::{
    DEFAULT_INTEREST_LIFETIME, Interest, InterestBuilder, ParametersDigestError, SignatureFreshness, with_nonce,
};
pub use lp::{LpHeader, LpPacket, NackReason, PitToken, encode_lp, lp_overhead};
pub use name::{Component, Components, Name, NameRef};
pub use sign::{DigestSigner, DigestVerifier, KeyLocator, SignError, SignatureInfo, Signer, Verifier, VerifyError};
pub use tlv::{DecodeError, DecodeErrorKind};
pub use uri::NameParseError;

//! Encoder and decoder for packets of Named Data Networking: TLV, names, Interest, Data, NDNLPv2,
//! digests and signatures, and the commands of the NFD Management Protocol. NDN Packet Format
//! Specification 0.3.
//!
//! The crate holds data and rules about data. Every decoder takes bytes and returns a view that
//! borrows them, or a [`DecodeError`] with an offset. For any input it does not panic, and
//! allocates at most the length of the input. Decoding an Interest takes about 50 ns, a Data 60 to
//! 80 ns, without an allocation. The crate is not a forwarder: it opens no socket, reads no clock
//! and keeps no table. It is not a trust schema: a [`Verifier`] identifies the key of a signature,
//! and does not decide whether that key may sign that name. RSA keys verify but do not sign.
//!
//! Read [`Interest`] and [`Data`] first.
//!
//! ```text
//!  stream ── tlv::frame ──┐
//!                         ├─ LpPacket ──┬──────────────┬─ Interest ── NameRef ── Component
//!  datagram ──────────────┘      │      │              └─ Data ────── NameRef, SignatureInfo ── Verifier
//!                             LpHeader  └ Reassembler ─┘
//!
//!  InterestBuilder, DataBuilder ── Signer ──> Vec<u8> ── encode_lp, Fragmenter ──> wire
//! ```
//!
//! ```
//! use larder_packet::{Data, DataBuilder, DigestSigner, DigestVerifier, Interest, InterestBuilder, Name};
//!
//! let name: Name = "/video/v=7/seg=0".parse().unwrap();
//! let asked = InterestBuilder::new(&name).nonce(42).build();
//! let interest = Interest::decode(&asked).unwrap();
//!
//! let answered = DataBuilder::new(interest.name).content(b"frames").build(&DigestSigner).unwrap();
//! let data = Data::decode(&answered).unwrap();
//! assert_eq!(data.name.to_string(), "/video/v=7/seg=0");
//! assert!(data.verify(&DigestVerifier).is_ok());
//!
//! let error = Interest::decode(&asked[..9]).unwrap_err();
//! assert_eq!(error.to_string(), "truncated at byte 0");
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod limits;
pub mod mgmt;
pub mod tlv;
pub mod types;

mod calendar;
mod certificate;
mod certificate_server;
mod data;
mod der;
mod fragment;
mod interest;
mod key_error;
mod keys;
mod lp;
mod name;
mod plain;
mod reliability;
mod self_signed;
mod sign;
mod uri;

pub use certificate::{Certificate, CertificateError, verifier_from_file};
pub use certificate_server::CertificateServer;
pub use data::{Data, DataBuilder};
pub use fragment::{
    FragmentDrop, FragmentError, Fragmenter, Reassembled, Reassembler, ReassemblyCounters,
};
pub use interest::{
    DEFAULT_INTEREST_LIFETIME, Interest, InterestBuilder, ParametersDigestError, with_nonce,
    without_forwarding_hint,
};
pub use key_error::KeyError;
pub use keys::{
    EcdsaSigner, Ed25519Signer, HmacSigner, HmacVerifier, PublicKeyVerifier, signer_from_pem,
    verifier_from_pem,
};
pub use lp::{
    LpHeader, LpPacket, NackReason, PathRecord, PitToken, SharedMemory, encode_lp, lp_overhead,
};
pub use mgmt::{ControlParameters, ControlResponse};
pub use name::{Component, Components, Name, NameRef};
pub use reliability::{Reliability, ReliabilityCounters};
pub use ring::rand::SystemRandom;
pub use self_signed::{CERTIFICATE_FRESHNESS, certified_signer, self_signed, to_base64};
pub use sign::{
    DigestSigner, DigestVerifier, KeyLocator, SignError, SignatureFreshness, SignatureInfo, Signer,
    Verifier, VerifyError,
};
pub use tlv::{DecodeError, DecodeErrorKind};
pub use uri::NameParseError;

//! Certificates by ACME (RFC 8555): orders them, stores them, and answers the challenges of the
//! authority.
//!
//! What it is: the host of `larder-acme`, which decides when a certificate is ordered. It isolates
//! instant-acme (the protocol) and rcgen (keys, requests, self-signed certificates). What it is
//! not: a listener. The HTTP side asks [`Certificates`] in a handshake and for a request below
//! `/.well-known/acme-challenge/`.
//!
//! Read [`AcmeConfig`] first, then [`Certificates`] and [`Renewals`].
//!
//! ```text
//!   AcmeConfig ─► Certificates::set_hosts      files of the folder, otherwise self-signed
//!                      ▲          │
//!                      │          └─► of_name (SNI), challenge (tls-alpn-01), answer (http-01)
//!   Renewals, a thread ┘    Schedule ─► order ─► Authority (instant-acme over hyper and rustls)
//! ```
//!
//! # The folder
//! Several nodes, and both processes of an upgrade, may share it. Each file is written under
//! another name, synced and renamed, so a reader sees a whole one.
//!
//! | file | content |
//! | --- | --- |
//! | `example.com.pem` | the private key, then the certificate and those that lead to a root |
//! | `example.com.lock` | locked by the process that orders |
//! | `example.com.failures` | the times of failed orders |
//! | `account_AUTHORITY.json` | the account: its URL and private key |
//! | `challenges/TOKEN`, `challenges/example.com.alpn` | the answer to a challenge, while it is open |
#![forbid(unsafe_code)]

mod authority;
mod certificates;
mod challenges;
mod client;
mod config;
mod error;
mod folder;
mod keys;
pub mod limits;
mod order;
mod renewals;
mod status;

pub use authority::check;
pub use certificates::Certificates;
pub use config::{AcmeConfig, ChallengeKind, ExternalAccount};
pub use error::Error;
pub use larder_acme::{CertificateFacts, CertificateHost, UnixTime, Validity, is_token};
pub use renewals::Renewals;
pub use status::HostStatus;

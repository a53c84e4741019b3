//! The decisions of an ACME client (RFC 8555), without its messages: which hosts can have a
//! certificate, the names of its files, and when a certificate is ordered.
//!
//! What it is: a core without IO. The host (`larder-acme-host`) passes the time, reads and writes
//! the files, and sends the requests. What it is not: a client of the protocol, which is a library
//! there. It knows no rules of HTTP or TLS.
//!
//! Read [`Schedule`] first, then [`CertificateHost`].
//!
//! ```text
//!   CertificateHost::parse ─► Schedule::new(certificate's Validity, Failures)
//!                                  │ next(now)
//!                                  ▼
//!              Wait(until)   AskWindow ─► on_window      Order ─► on_ordered | on_failed
//! ```
//!
//! ```
//! use larder_acme::{CertificateHost, Failures, Schedule, Step, UnixTime};
//! use larder_units::Streams;
//!
//! let host = CertificateHost::parse("Example.com").unwrap();
//! assert_eq!(host.file_name(), "example.com.pem");
//! // Without a certificate, it is ordered at once.
//! let chance = Streams::new(1).stream(host.as_str());
//! let mut schedule = Schedule::new(None, Failures::default(), chance);
//! assert_eq!(schedule.next(UnixTime(1_000_000)), Step::Order);
//! ```
#![forbid(unsafe_code)]

mod certificate;
mod failures;
mod host;
pub mod limits;
mod schedule;
mod token;
mod unix_time;

pub use certificate::CertificateFacts;
pub use failures::{Failure, Failures};
pub use host::{CertificateHost, HostError, account_file_name};
pub use schedule::{Schedule, Step};
pub use token::is_token;
pub use unix_time::{UnixTime, Validity};

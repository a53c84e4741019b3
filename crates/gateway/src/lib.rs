//! HTTP over NDN: an ingress takes HTTP from clients and fetches over NDN from an egress, which
//! sends HTTP to the origin.
//!
//! ```text
//!  client ─ HTTP ─► [http] cache ─► ingress ─ NDN ─► nodes ─ lossy link ─ nodes ─ NDN ─► egress ─ HTTP ─► origin
//!                     one question (a request), one answer (a head), then segments of the body
//! ```
//!
//! # Names
//! An **object** is called `PREFIX/AUTHORITY/PATH…`, one component per part of the path, with the
//! query in the last: `/far/example.com/img/a.png`. It has three kinds of Data ([`naming`]):
//! * a **question**, `OBJECT/32=http/params-sha256=…`: a request in the parameters of the Interest
//!   ([`message`]). Its one Data is the head of the response, with the body if that fits, otherwise
//!   with the version of its segments;
//! * a **segment**, `OBJECT/v=VERSION/seg=N`: bytes of the body. No two bodies have the same
//!   version, so none mix. A body that the origin marks as unchanged keeps its version, so Content
//!   Stores on the path go on serving it (`egress/body_version.rs` has the rules, and what may go
//!   wrong);
//! * **metadata**, `OBJECT/32=metadata` (RDR): the version of the response to a plain GET. So
//!   `larder get /far/example.com/img/a.png` fetches a page.
//!
//! The name of a question is the digest of the request: equal requests have equal names, and caches
//! and pending Interests on the path treat the answer as any Data. This is desired only if a shared
//! HTTP cache may answer both ([`form`]). So the ingress first uses the *shared form*, with only
//! the fields that select a representation. If the egress sees that the response belongs to one
//! client, or varies by a field that was left out, it answers that, and the ingress asks again *in
//! full*: with every field and a unique number. The ingress remembers such pages.
//!
//! The freshness of a head for caches on the path follows from its HTTP freshness, and is at most
//! `[ndn.gateway] shared_for`. The answer to a request in full is never fresh. A body that breaks
//! off ends with a Data of content type Nack, and the client's response breaks off too.
//!
//! # Security
//! The egress's key signs every Data, and the ingress verifies it before it uses a byte. The
//! signature covers the name: a head belongs to its request, a segment to its head. If the two
//! share a secret, the ingress signs its requests in full with it, and the egress accepts no others
//! in full. The shared form is never signed. Nothing is encrypted.
//!
//! The egress passes only the methods, hosts, paths and fields that an ingress sends
//! (`request_form.rs`). Requesters share its room and its places at the origin
//! (`egress/orders.rs`).
//!
//! Both ends are a sans-IO core ([`ingress::Fetches`], [`egress::EgressCore`]) on its own thread,
//! which has a connection to this node's forwarder as any application; HTTP runs beside it on
//! tokio.
//!
//! # What is missing
//! Requests with a body of more than [`limits::REQUEST_BYTES`] (413), and heads that do not fit a
//! packet (431, 502). Trailers. Informational responses. Encryption: a node on the path, or a
//! client that lists its store, can read the traffic. Access control: whoever reaches the egress
//! may send its origin any request of the shared form, and with a key pair, where no request is
//! signed, any request at all. Resumption: if the egress restarts, a body whose segments are lost
//! breaks off.

#![deny(unsafe_code)]

pub mod egress;
mod error;
pub mod form;
pub mod ingress;
mod keys;
pub mod limits;
pub mod message;
pub mod naming;
mod origin;
mod request_form;
mod thread;

pub use error::{Error, KeyFileError};
pub use keys::{KeyFiles, Trust};
pub use origin::NdnOrigin;

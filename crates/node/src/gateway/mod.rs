//! HTTP, NDN and HTTP again: an edge takes HTTP from clients and fetches over NDN from a far node,
//! which takes HTTP from the origin.
//!
//! ```text
//!  client ─ HTTP ─► [http] cache ─► edge ─ NDN ─► node ─ lossy link ─ node … node ─ NDN ─► far ─ HTTP ─► origin
//!                                    one question (a request), one answer (a head), then segments of the body
//! ```
//!
//! # On the wire
//! An **object** is called `PREFIX/AUTHORITY/PATH…`, a component a part of the path, the query in
//! the last: `/far/example.com/img/a.png`. Three things are asked about it ([`naming`]):
//! * a **question**, `OBJECT/32=http/params-sha256=…`: a request, in the parameters of the Interest
//!   ([`message`]). Its one Data is the head of the response, with the body where that fits, else
//!   with the version under which its segments are;
//! * a **segment**, `OBJECT/v=VERSION/seg=N`: bytes of the body. Versions are made anew for each
//!   response of the origin, so that no two mix;
//! * **metadata**, `OBJECT/32=metadata` (RDR): the version of what a plain GET gives. So
//!   `larder get /far/example.com/img/a.png` fetches a page.
//!
//! The name of a question is the digest of the request: who asks the same, asks by the same name,
//! and caches and pending Interests on the way do what they do for any Data. That is wanted where a
//! shared HTTP cache might answer both, and nowhere else ([`form`]): the edge asks first in the
//! *shared form*, with the fields alone that select a representation; where the far node sees that
//! the response is one client's, or varies by a field that was left out, it says so instead of
//! answering, and the edge asks again *in full*: with every field and a number of its own. The edge
//! remembers where that was so.
//!
//! How fresh a head is for caches on the way follows from its HTTP freshness,
//! `[ndn.gateway] shared_for` at most; it is not at all for what is asked in full. A body that
//! breaks off ends with a Data of content type Nack, and the client's response breaks off too.
//!
//! # Who says so
//! Every Data is signed by the far node's key and checked by the edge before a byte of it counts.
//! The name is signed with it: a head belongs to its request, a segment to its head. Where the two
//! share a secret, the edge signs its requests in full by it, and the far node takes none in full
//! that is not signed so; the shared form is never signed. What is sent is not encrypted.
//!
//! Both ends are a sans-IO core ([`ingress::Fetches`], [`egress::EgressCore`]) on a thread of its
//! own, which holds a connection to this node's forwarder as any application does; HTTP runs beside
//! it on tokio.
//!
//! # What is missing
//! Requests with a body of more than [`limits::REQUEST_BYTES`] (413) and heads that fit no packet
//! (431, 502); trailers; interim responses; encryption, so that a node on the way, or who asks it
//! for all that it stores, reads what passes; whoever reaches the far node may ask its origin for
//! what the shared form can ask for, and with a key pair, where no request is signed, for
//! everything; a body whose segments are lost with the far node's restart breaks off, and is not
//! taken up where it broke.

pub mod egress;
pub mod form;
pub mod ingress;
mod keys;
pub mod limits;
pub mod message;
pub mod naming;
mod thread;

pub use keys::{KeyFiles, Trust};

use crate::config::Config;
use crate::preflight::Preflight;

/// Reads the keys and certificates of both ends.
pub(crate) fn check(config: &Config, preflight: &mut Preflight) {
    if let Some(table) = config.ndn.gateway.as_ref() {
        preflight.add(egress::check(table, config.http.origin_ca.as_deref()).err());
    }
    if let Some(table) = config.http.upstream.as_ref().filter(|_| config.http.enabled) {
        preflight.add(ingress::check(table).err());
    }
}

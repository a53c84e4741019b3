//! What the service knows of a connected client.

use crate::base::alt_svc::AltSvc;
use crate::base::http_limits::HttpLimits;
use crate::exchange::https_redirect::HttpsRedirect;
use crate::exchange::upgrade::Switch;
use crate::message::informational::InformationalResponses;
use crate::message::trusted_proxies::TrustedPeer;
use crate::report::observer::ObservedClient;
use ::http::HeaderValue;
use larder_host::Peer;
use std::sync::Arc;

/// A connected client.
pub(crate) struct Client {
    /// The other end of the connection, or the client that the PROXY protocol names.
    pub(crate) peer: Peer,
    /// Reads what a trusted proxy says of each request's client; `None` for all other peers.
    pub(crate) trusted: Option<TrustedPeer>,
    /// Present if requests for `http` are redirected to HTTPS.
    pub(crate) redirect: Option<HttpsRedirect>,
    /// True for TLS.
    pub(crate) is_secure: bool,
    /// The subject of its verified certificate, if the origin is to learn it.
    pub(crate) subject: Option<HeaderValue>,
    /// Informational responses for this client.
    pub(crate) interims: InformationalResponses,
    /// The change of protocol of the connection.
    pub(crate) switch: Switch,
    /// For the records of its exchanges.
    pub(crate) observed: Option<ObservedClient>,
    /// The limits of its requests.
    pub(crate) limits: HttpLimits,
    /// True for another node of the fleet, which its certificate proves.
    pub(crate) is_peer: bool,
    /// What its responses say of HTTP/3.
    pub(crate) alt_svc: Option<Arc<AltSvc>>,
}

#[cfg(test)]
impl Client {
    /// Returns a client of this machine without TLS.
    pub(crate) fn insecure(interims: InformationalResponses) -> Client {
        Client {
            peer: Peer::Unix,
            trusted: None,
            redirect: None,
            subject: None,
            is_secure: false,
            interims,
            switch: Switch::default(),
            observed: None,
            limits: HttpLimits::default(),
            is_peer: false,
            alt_svc: None,
        }
    }
}

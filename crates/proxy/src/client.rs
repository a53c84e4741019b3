//! What the service knows of a connected client.

use super::http_limits::HttpLimits;
use super::https_redirect::HttpsRedirect;
use super::informational::InformationalResponses;
use super::listen_address::Peer;
use super::observer::ObservedClient;
use super::trusted_proxies::TrustedPeer;
use super::upgrade::Switch;
use ::http::HeaderValue;

/// A connected client.
pub(super) struct Client {
    /// The other end of the connection, or the client that the PROXY protocol names.
    pub(super) peer: Peer,
    /// Reads what a trusted proxy says of each request's client; `None` for all other peers.
    pub(super) trusted: Option<TrustedPeer>,
    /// Present if requests for `http` are redirected to HTTPS.
    pub(super) redirect: Option<HttpsRedirect>,
    /// True for TLS.
    pub(super) is_secure: bool,
    /// The subject of its verified certificate, if the origin is to learn it.
    pub(super) subject: Option<HeaderValue>,
    /// Informational responses for this client.
    pub(super) interims: InformationalResponses,
    /// The change of protocol of the connection.
    pub(super) switch: Switch,
    /// For the records of its exchanges.
    pub(super) observed: Option<ObservedClient>,
    /// The limits of its requests.
    pub(super) limits: HttpLimits,
}

#[cfg(test)]
impl Client {
    /// Returns a client of this machine without TLS.
    pub(super) fn insecure(interims: InformationalResponses) -> Client {
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
        }
    }
}

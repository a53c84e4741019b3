//! `[http] redirect_to_https`: the answer to requests that came without TLS.
//!
//! The status is 308 (RFC 9110 §15.4.9): the client repeats its request as it is. With 301, a POST
//! may become a GET.

use crate::exchange::acme_challenge;
use crate::exchange::outgoing::{Outgoing, own_answer};
use ::http::header::LOCATION;
use ::http::uri::Authority;
use ::http::{HeaderValue, Response, StatusCode};

/// The HTTPS listener to which requests are redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HttpsRedirect {
    /// Its port.
    pub(crate) port: u16,
}

impl HttpsRedirect {
    /// Returns the redirect for a request; `None` if it passes.
    pub(crate) fn answer(self, authority: &str, target: &str) -> Option<Response<Outgoing>> {
        let location = self.location(authority, target)?;
        let mut response = own_answer(
            StatusCode::PERMANENT_REDIRECT,
            format!("larder: use {location}\n"),
            "redirect",
        );
        response
            .headers_mut()
            .insert(LOCATION, HeaderValue::try_from(location).ok()?);
        Some(response)
    }

    /// Returns the URL to which a request is redirected; `None` if it passes.
    pub(crate) fn location(self, authority: &str, target: &str) -> Option<String> {
        // Their answers prove the control of a host that has no certificate yet. Those of this node
        // are given before; the origin may have an ACME client of its own.
        if acme_challenge::is_one(target) {
            return None;
        }
        let authority: Authority = authority.parse().ok()?;
        let (host, target) = (
            authority.host(),
            if target.starts_with('/') { target } else { "/" },
        );
        Some(match self.port {
            443 => format!("https://{host}{target}"),
            port => format!("https://{host}:{port}{target}"),
        })
    }
}

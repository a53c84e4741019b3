//! The token of the admin server, which clients send with requests that change something.

use ::http::HeaderMap;
use ::http::header::AUTHORIZATION;
use ring::digest::{SHA256, digest};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The token in `Authorization: Bearer TOKEN` (RFC 6750 §2.1). No other place is read: a cookie
/// would be sent by any page.
#[derive(Default)]
pub(crate) struct AdminToken(Mutex<Option<String>>);

impl AdminToken {
    pub(crate) fn new(token: Option<&str>) -> AdminToken {
        AdminToken(Mutex::new(token.map(str::to_owned)))
    }

    /// Sets a token, or none. Returns true if it is another one than before.
    pub(crate) fn set(&self, token: Option<&str>) -> bool {
        let token = token.map(str::to_owned);
        let before = std::mem::replace(&mut *self.token(), token.clone());
        before != token
    }

    /// Returns true if there is a token.
    pub(crate) fn is_set(&self) -> bool {
        self.token().is_some()
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the request has the token. Compares digests, so that the time reveals
    /// nothing about the token.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        // The name of the scheme is case-insensitive (RFC 9110 §11.1).
        let sent = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.as_bytes().split_at_checked(b"Bearer ".len()));
        let sent = sent
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "))
            .map(|(_, token)| token);
        let token = self.token();
        let both = sent.zip(token.as_ref());
        both.is_some_and(|(sent, token)| {
            digest(&SHA256, sent).as_ref() == digest(&SHA256, token.as_bytes()).as_ref()
        })
    }
}

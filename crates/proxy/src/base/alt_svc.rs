//! `Alt-Svc` (RFC 7838): tells clients of a listener that HTTP/3 is served at the same port.

#![cfg_attr(
    not(feature = "http3"),
    allow(dead_code, reason = "nothing is announced without HTTP/3")
)]

use ::http::HeaderValue;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the responses of one listener say.
pub(crate) struct AltSvc {
    value: HeaderValue,
    /// The UDP sockets of the listener that are not read yet, or no more.
    missing: AtomicUsize,
}

/// A client may use HTTP/3 for so many seconds before it asks again. It falls back if nothing
/// answers.
const SECONDS: u32 = 24 * 3600;

impl AltSvc {
    /// Begins with a listener that has so many UDP sockets, none of which is read.
    pub(crate) fn new(port: u16, sockets: usize) -> AltSvc {
        let value = format!("h3=\":{port}\"; ma={SECONDS}");
        AltSvc {
            value: HeaderValue::try_from(value).expect("visible ASCII"),
            missing: AtomicUsize::new(sockets.max(1)),
        }
    }

    /// Records that a socket is read, until the result is dropped.
    pub(crate) fn read(&self) -> SocketRead<'_> {
        self.missing.fetch_sub(1, Ordering::Relaxed);
        SocketRead(self)
    }

    /// Appends the field to the head of a response of HTTP/1.1, unless it has one.
    pub(crate) fn append_to(&self, head: &mut Vec<u8>) {
        const NAME: &[u8] = b"\r\nalt-svc:";
        let Some(value) = self.value().filter(|_| head.ends_with(b"\r\n\r\n")) else {
            return;
        };
        let mut lines = memchr::memchr_iter(b'\r', head);
        let has_one = lines.any(|at| {
            let line = head.get(at..at + NAME.len());
            line.is_some_and(|line| line.eq_ignore_ascii_case(NAME))
        });
        if has_one {
            return;
        }
        head.truncate(head.len() - b"\r\n".len());
        for part in [b"alt-svc: ", value.as_bytes(), b"\r\n\r\n"] {
            head.extend_from_slice(part);
        }
    }

    /// Returns the value, while all sockets are read: the kernel chooses one for a client.
    pub(crate) fn value(&self) -> Option<&HeaderValue> {
        (self.missing.load(Ordering::Relaxed) == 0).then_some(&self.value)
    }
}

/// A UDP socket that is read.
pub(crate) struct SocketRead<'a>(&'a AltSvc);

impl Drop for SocketRead<'_> {
    fn drop(&mut self) {
        self.0.missing.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: clients try HTTP/3 where nothing answers.
    #[test]
    fn a_socket_that_is_not_read_is_announced() {
        let alt_svc = AltSvc::new(8443, 2);
        assert!(alt_svc.value().is_none());
        let first = alt_svc.read();
        assert!(alt_svc.value().is_none());
        let second = alt_svc.read();
        let value = alt_svc.value().expect("both are read");
        assert_eq!(value, "h3=\":8443\"; ma=86400");
        let mut head = b"HTTP/1.1 200 OK\r\nage: 0\r\n\r\n".to_vec();
        for _ in 0..2 {
            alt_svc.append_to(&mut head);
            let expected = "HTTP/1.1 200 OK\r\nage: 0\r\nalt-svc: h3=\":8443\"; ma=86400\r\n\r\n";
            assert_eq!(str::from_utf8(&head), Ok(expected));
        }
        drop(first);
        assert!(alt_svc.value().is_none());
        drop(second);
    }
}

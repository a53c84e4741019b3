//! The length of a body, as its head declares it (RFC 9110 §8.6, RFC 9112 §6).

use crate::rfc::fields;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};

/// Returns true if the end of the body is known. In HTTP/1 a body without Content-Length and
/// Transfer-Encoding ends with its connection, and is complete unless the connection reports an
/// error (RFC 9112 §8). If the last coding is not chunked, or lengths contradict each other, the
/// length that was sent is unknown.
pub(crate) fn is_framed(status: StatusCode, version: Version, headers: &HeaderMap) -> bool {
    version > Version::HTTP_11
        || status == StatusCode::NO_CONTENT
        || content_length(headers).is_some()
        || !(headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING))
        || fields::list(headers, &TRANSFER_ENCODING)
            .last()
            .is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"))
}

/// Returns the declared length, if all lines agree (RFC 9110 §8.6) and no transfer coding overrules
/// it.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    let mut values = fields::list(headers, &CONTENT_LENGTH);
    let first = values.next()?;
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let length = first.iter().try_fold(0u64, |length, byte| {
        length.checked_mul(10)?.checked_add(digit(byte)?)
    });
    length.filter(|_| values.all(|other| other == first))
}

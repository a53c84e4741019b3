//! Validation at the origin (RFC 9111, 4.3): an answer has expired and its body is still here. The
//! egress asks with the answer's validator, and a 304 renews the head, so the origin does not send
//! the body again.

use super::exchange::OriginHead;
use crate::limits;
use crate::message::{Content, Head};
use http::header::{AGE, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};
use http::{HeaderMap, HeaderName, StatusCode};

/// Fields of a request that has conditions of its own, or asks for a part.
static OWN: [HeaderName; 6] = [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE];

/// Returns true if an answer has a validator, and a body that does not come with its head: such a
/// one is small, and has its version from its bytes.
pub(super) fn is_worthwhile(stale: &Head) -> bool {
    let is_large =
        matches!(stale.body, Content::Segments { length: Some(length), .. } if length > limits::SEGMENT_BYTES as u64);
    is_large && larder_http::strong_validator(&stale.headers).is_some()
}

/// Makes a request conditional on a change since the stale answer. Returns false, and changes
/// nothing, if it has conditions of its own.
pub(super) fn set_condition(request: &mut HeaderMap, stale: &Head) -> bool {
    !OWN.iter().any(|name| request.contains_key(name)) && larder_http::set_validators(request, &stale.headers)
}

/// Returns the stale answer's head with the fields of a 304; `None` if this is none.
pub(super) fn renewed(stale: Head, not_modified: &OriginHead) -> Option<OriginHead> {
    let Head { status, mut headers, body: Content::Segments { length, .. }, unframed } = stale else { return None };
    if not_modified.status != StatusCode::NOT_MODIFIED {
        return None;
    }
    // The age of the earlier answer.
    headers.remove(AGE);
    larder_http::renew(&mut headers, &not_modified.headers);
    Some(OriginHead { status, headers, unframed, body: None, length })
}

//! HTTP dates (RFC 9110 §5.6.7), all three forms, as seconds since 1970.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::{Duration, UNIX_EPOCH};

/// The date in the field `name`; `None` where it is absent or is not an HTTP date (in particular `0` and `-1`).
pub(crate) fn field(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    parse(headers.get(name)?)
}

/// Reads one HTTP date. A date before 1970 is none: as an `Expires` it is past, as a `Last-Modified` it says nothing.
pub(crate) fn parse(value: &HeaderValue) -> Option<u64> {
    let date = httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()?;
    Some(date.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Seconds past the year 9999 are printed as its end.
pub(crate) fn format(unix_seconds: u64) -> HeaderValue {
    const END_OF_9999: u64 = 253_402_300_799;
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds.min(END_OF_9999)));
    HeaderValue::try_from(text).expect("an HTTP date is visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_of_rfc_9110() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(&HeaderValue::from_static(text)), Some(784_111_777), "{text}");
        }
        assert_eq!(format(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in ["0", "-1", "", "soon", "Sun, 06 Nov 1994 08:49:37 PST", "Sun, 32 Nov 1994 08:49:37 GMT"] {
            assert_eq!(parse(&HeaderValue::from_static(text)), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_dates_read_back(seconds in 0u64..253_402_300_799) {
            prop_assert_eq!(parse(&format(seconds)), Some(seconds));
        }

        #[test]
        fn no_seconds_panic(seconds: u64) {
            let _ = format(seconds);
        }
    }
}

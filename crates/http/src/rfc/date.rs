//! HTTP dates (RFC 9110 §5.6.7), all three forms, as seconds since 1970.

use http::{HeaderMap, HeaderName, HeaderValue};
use std::time::{Duration, UNIX_EPOCH};

/// Returns the date in the field `name`; `None` if the field is missing or is not an HTTP date (in
/// particular `0` and `-1`).
pub(crate) fn field(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    parse(headers.get(name)?)
}

/// Parses one HTTP date. A date before 1970 is `None`: as an `Expires` it is past, as a
/// `Last-Modified` it is useless.
pub(crate) fn parse(value: &HeaderValue) -> Option<u64> {
    if let Some(seconds) = value.as_bytes().try_into().ok().and_then(imf_fixdate) {
        return Some(seconds);
    }
    let text = value.to_str().ok()?.trim();
    let date = httpdate::parse_http_date(text)
        .or_else(|_| httpdate::parse_http_date(&in_usual_letters(text)))
        .ok()?;
    Some(
        date.duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    )
}

/// Corrects the case of a date: RFC 9111 §4.2 requires to accept any case.
fn in_usual_letters(text: &str) -> String {
    let mut usual = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_within = usual.ends_with(|before: char| before.is_ascii_alphabetic());
        usual.push(if is_within {
            letter.to_ascii_lowercase()
        } else {
            letter.to_ascii_uppercase()
        });
    }
    usual.replace("Gmt", "GMT")
}

/// Parses the form that all senders use, at an eighth of the library's cost, because each response
/// is parsed several times. Returns `None` for any other form, and for a 29th of February; the
/// library decides then.
fn imf_fixdate(text: &[u8; 29]) -> Option<u64> {
    const DAYS: [&[u8; 3]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
    let two = |at: usize| {
        let [tens, ones] = [text[at], text[at + 1]].map(|digit| digit.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| u64::from(tens * 10 + ones))
    };
    let between = [
        (3, b','),
        (4, b' '),
        (7, b' '),
        (11, b' '),
        (16, b' '),
        (19, b':'),
        (22, b':'),
    ];
    if between.iter().any(|(at, byte)| text[*at] != *byte) || text[25..] != *b" GMT" {
        return None;
    }
    let (day, month, year) = (two(5)?, month_of(&text[8..11])?, two(12)? * 100 + two(14)?);
    let (hour, minute, second) = (two(17)?, two(20)?, two(23)?);
    if day == 0
        || day > [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize]
        || year < 1970
        || hour > 23
        || minute > 59
        || second > 59
    {
        return None;
    }
    // For a year that begins in March, so that the leap day is its last (H. Hinnant,
    // "chrono-Compatible Low-Level Date Algorithms").
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    const DAYS_TO_1970: u64 = 719_468;
    let days = days - DAYS_TO_1970;
    // It was a Thursday.
    let is_that_day = text[..3] == *DAYS[(days as usize + 3) % 7];
    is_that_day.then_some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Returns the number of a month, from 0.
fn month_of(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"Jan" => 0,
        b"Feb" => 1,
        b"Mar" => 2,
        b"Apr" => 3,
        b"May" => 4,
        b"Jun" => 5,
        b"Jul" => 6,
        b"Aug" => 7,
        b"Sep" => 8,
        b"Oct" => 9,
        b"Nov" => 10,
        b"Dec" => 11,
        _ => return None,
    })
}

/// Formats a date: `Sun, 06 Nov 1994 08:49:37 GMT`. Seconds after the year 9999 print as its end.
pub(crate) fn format(unix_seconds: u64) -> HeaderValue {
    const END_OF_9999: u64 = 253_402_300_799;
    let text =
        httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds.min(END_OF_9999)));
    HeaderValue::try_from(text).expect("an HTTP date is visible ASCII")
}

/// Replaces the value of `date` in header lines that were written with a date in this form.
pub(crate) fn renew(head: &mut [u8], unix_seconds: u64) {
    const LINE: &[u8] = b"\ndate: ";
    let Some(start) = memchr::memmem::find(head, LINE).map(|at| at + LINE.len()) else {
        return;
    };
    let value = format(unix_seconds);
    if let Some(place) = head.get_mut(start..start + value.len())
        && place.ends_with(b" GMT")
    {
        place.copy_from_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_of_rfc_9110() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                parse(&HeaderValue::from_static(text)),
                Some(784_111_777),
                "{text}"
            );
        }
        for text in [
            "sun, 06 nov 1994 08:49:37 gmt",
            "SUNDAY, 06-NOV-94 08:49:37 GMT",
            "sUN nOV  6 08:49:37 1994",
        ] {
            assert_eq!(
                parse(&HeaderValue::from_static(text)),
                Some(784_111_777),
                "{text}"
            );
        }
        assert_eq!(format(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "0",
            "-1",
            "",
            "soon",
            "Sun, 06 Nov 1994 08:49:37 PST",
            "Sun, 32 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(&HeaderValue::from_static(text)), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_dates_read_back(seconds in 0u64..253_402_300_799) {
            prop_assert_eq!(parse(&format(seconds)), Some(seconds));
        }

        /// Failure: the fast parser accepts a date that the library refuses, or reads another time.
        #[test]
        fn the_short_way_agrees_with_the_library(seconds in 0u64..253_402_300_799, at in 0usize..29, byte in b' '..=b'z') {
            let value = format(seconds);
            let mut text: [u8; 29] = value.as_bytes().try_into().unwrap();
            let by_library = |text: &[u8]| {
                let date = httpdate::parse_http_date(std::str::from_utf8(text).unwrap()).ok()?;
                Some(date.duration_since(UNIX_EPOCH).unwrap().as_secs())
            };
            let is_leap_day = text[5..11] == *b"29 Feb";
            prop_assert_eq!(imf_fixdate(&text), by_library(&text).filter(|_| !is_leap_day));
            text[at] = byte;
            if let Some(read) = imf_fixdate(&text) {
                prop_assert_eq!(Some(read), by_library(&text));
            }
        }

        #[test]
        fn no_seconds_panic(seconds: u64) {
            let _ = format(seconds);
        }
    }
}

//! What a client of ACME reads in a certificate (RFC 5280): when it is valid, and the identifier by
//! which the authority knows it (RFC 9773 §4.1).

use crate::unix_time::{UnixTime, Validity};

/// The facts of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// When it is valid.
    pub validity: Validity,
    /// The serial number: the content of its INTEGER.
    pub serial: Vec<u8>,
    /// The identifier of the authority's key, if the certificate has it.
    pub authority_key: Option<Vec<u8>>,
}

const BOOLEAN: u8 = 1;
const INTEGER: u8 = 2;
const OCTET_STRING: u8 = 4;
const OBJECT_IDENTIFIER: u8 = 6;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// `[0]`, of the version, and of a key's identifier.
const CONTEXT_0: u8 = 0xa0;
const KEY_IDENTIFIER: u8 = 0x80;
/// `[3]`, of the extensions.
const CONTEXT_3: u8 = 0xa3;

/// `id-ce-authorityKeyIdentifier` (RFC 5280 §4.2.1.1).
const AUTHORITY_KEY_IDENTIFIER: [u8; 3] = [0x55, 29, 35];

impl CertificateFacts {
    /// Reads a certificate in DER; `None` if it is malformed.
    pub fn read(der: &[u8]) -> Option<CertificateFacts> {
        let mut rest = der;
        let mut certificate = take(&mut rest, SEQUENCE)?;
        let mut fields = take(&mut certificate, SEQUENCE)?;
        if fields.first() == Some(&CONTEXT_0) {
            take(&mut fields, CONTEXT_0)?;
        }
        let serial = take(&mut fields, INTEGER)?;
        take(&mut fields, SEQUENCE)?; // signature
        take(&mut fields, SEQUENCE)?; // issuer
        let mut times = take(&mut fields, SEQUENCE)?;
        let (not_before, not_after) = (take_time(&mut times)?, take_time(&mut times)?);
        take(&mut fields, SEQUENCE)?; // subject
        take(&mut fields, SEQUENCE)?; // its key
        let mut authority_key = None;
        while let Some(tag) = fields.first().copied() {
            let content = take(&mut fields, tag)?;
            if tag == CONTEXT_3 {
                authority_key = authority_key_of(content)?;
            }
        }
        Some(CertificateFacts {
            validity: Validity {
                not_before,
                not_after,
            },
            serial: serial.to_owned(),
            authority_key: authority_key.map(<[u8]>::to_owned),
        })
    }
}

/// Returns the key's identifier among the extensions; `None` if they are malformed.
fn authority_key_of(mut extensions: &[u8]) -> Option<Option<&[u8]>> {
    let mut all = take(&mut extensions, SEQUENCE)?;
    while !all.is_empty() {
        let mut extension = take(&mut all, SEQUENCE)?;
        let kind = take(&mut extension, OBJECT_IDENTIFIER)?;
        if extension.first() == Some(&BOOLEAN) {
            take(&mut extension, BOOLEAN)?;
        }
        let mut value = take(&mut extension, OCTET_STRING)?;
        if kind == AUTHORITY_KEY_IDENTIFIER {
            let mut identifier = take(&mut value, SEQUENCE)?;
            let has_key = identifier.first() == Some(&KEY_IDENTIFIER);
            return Some(if has_key {
                Some(take(&mut identifier, KEY_IDENTIFIER)?)
            } else {
                None
            });
        }
    }
    Some(None)
}

/// Takes an element of this tag. Returns its content.
fn take<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&found, rest) = from.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x83 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let length = bytes
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *from = rest;
    (found == tag).then_some(content)
}

/// Takes a time (RFC 5280 §4.1.2.5): `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn take_time(from: &mut &[u8]) -> Option<UnixTime> {
    let tag = *from.first()?;
    let text = take(from, tag)?;
    let digits = text.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'))
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => match number(&digits[..2]) {
            year @ 0..50 => (2000 + year, &digits[2..]),
            year => (1900 + year, &digits[2..]),
        },
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let two = |at: usize| number(&rest[at..at + 2]);
    let (month, day) = (two(0), two(2));
    let (hour, minute, second) = (two(4), two(6), two(8));
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = hour * 3600 + minute * 60 + second;
    Some(UnixTime(days(year, month, day) * 86_400 + seconds))
}

/// Returns the days since 1970 of a date, by the count of days before a month in a year that begins
/// in March.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    let before_month = (153 * month + 2) / 5;
    // 719,468 days before 1970 begins the year 0 of this count.
    before_year + before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut element = vec![tag, 0x82];
        element.extend((content.len() as u16).to_be_bytes());
        element.extend(content);
        element
    }

    fn certificate(times: [(u8, &str); 2], extensions: &[u8]) -> Vec<u8> {
        let times: Vec<u8> = times
            .iter()
            .flat_map(|(tag, text)| element(*tag, text.as_bytes()))
            .collect();
        let fields = [
            element(CONTEXT_0, &element(INTEGER, &[2])),
            element(INTEGER, &[0, 0x87, 0x65]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &times),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &[]),
            element(CONTEXT_3, &element(SEQUENCE, extensions)),
        ];
        element(SEQUENCE, &element(SEQUENCE, &fields.concat()))
    }

    /// Failure: a certificate is renewed at the wrong time, or the authority does not know which.
    #[test]
    fn a_certificate_is_misread() {
        let key = element(SEQUENCE, &element(KEY_IDENTIFIER, &[1, 2, 3]));
        let of = |kind: &[u8], value: &[u8]| {
            let parts = [
                element(OBJECT_IDENTIFIER, kind),
                element(BOOLEAN, &[255]),
                element(OCTET_STRING, value),
            ];
            element(SEQUENCE, &parts.concat())
        };
        let extensions = [
            of(&[0x55, 29, 15], &[9]),
            of(&AUTHORITY_KEY_IDENTIFIER, &key),
        ];
        let times = [
            (UTC_TIME, "700102000001Z"),
            (GENERALIZED_TIME, "20240229235959Z"),
        ];
        let facts = CertificateFacts::read(&certificate(times, &extensions.concat())).unwrap();
        assert_eq!(facts.validity.not_before, UnixTime(86_401));
        assert_eq!(facts.validity.not_after, UnixTime(1_709_251_199));
        assert_eq!(facts.serial, [0, 0x87, 0x65]);
        assert_eq!(facts.authority_key, Some(vec![1, 2, 3]));
        let none = CertificateFacts::read(&certificate(times, &extensions[0])).unwrap();
        assert_eq!(none.authority_key, None);
        for wrong in [
            "700102000001",
            "70010200000+Z",
            "701302000001Z",
            "7001020001Z",
            "",
        ] {
            let times = [(UTC_TIME, wrong), times[1]];
            assert_eq!(
                CertificateFacts::read(&certificate(times, &[])),
                None,
                "{wrong}"
            );
        }
    }

    proptest! {
        /// Failure: a file that is no certificate stops the node.
        #[test]
        fn arbitrary_bytes_stop_the_reader(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..200,
            byte in any::<u8>(),
        ) {
            let _ = CertificateFacts::read(&bytes);
            let times = [(UTC_TIME, "240102000001Z"), (UTC_TIME, "250102000001Z")];
            let mut nearly = certificate(times, &[]);
            let at = at % nearly.len();
            nearly[at] = byte;
            let _ = CertificateFacts::read(&nearly);
            let _ = CertificateFacts::read(&nearly[..at]);
        }
    }
}

//! Names as text: `/video/32=metadata/v=7/seg=0`.
//!
//! NDN Packet Format Specification 0.3, section "NDN URI Scheme", with the short forms of the
//! Naming Conventions, revision 3. Bytes outside `A-Z a-z 0-9 - . _ ~` print as `%XX`. A component
//! that is empty or has only periods prints with three more periods. A type other than 8 prints as
//! `32=…`. Every name prints to a text that parses to the same name.

use crate::name::{Component, Name, NameRef};
use crate::{tlv, types};
use std::fmt::{self, Write};
use std::str::FromStr;

/// Component types whose value is a number, with their short form.
const NUMBERS: [(&str, u16); 5] = [
    ("seg", types::SEGMENT),
    ("off", types::BYTE_OFFSET),
    ("v", types::VERSION),
    ("t", types::TIMESTAMP),
    ("seq", types::SEQUENCE_NUM),
];

/// Component types whose value is a digest, with their short form.
const DIGESTS: [(&str, u16); 2] = [
    ("sha256digest", types::IMPLICIT_SHA256_DIGEST),
    ("params-sha256", types::PARAMETERS_SHA256_DIGEST),
];

/// A text that is not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameParseError {
    component: String,
    problem: &'static str,
}

impl fmt::Display for NameParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.component, self.problem)
    }
}

impl std::error::Error for NameParseError {}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_char('/');
        }
        self.components()
            .try_for_each(|component| write!(f, "/{component}"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_name().fmt(f)
    }
}

impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((short, _)) = DIGESTS.iter().find(|(_, typ)| *typ == self.typ) {
            write!(f, "{short}=")?;
            return self
                .value
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02x}"));
        }
        let short = NUMBERS.iter().find(|(_, typ)| *typ == self.typ);
        // A number in more bytes than it needs would parse to fewer bytes, so it prints as bytes.
        let number = self
            .as_number()
            .filter(|number| tlv::nni_len(*number) == self.value.len());
        if let (Some((short, _)), Some(number)) = (short, number) {
            return write!(f, "{short}={number}");
        }
        if self.typ != types::GENERIC_NAME_COMPONENT {
            write!(f, "{}=", self.typ)?;
        }
        write_escaped(f, self.value)
    }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, value: &[u8]) -> fmt::Result {
    if value.iter().all(|byte| *byte == b'.') {
        f.write_str("...")?;
    }
    value.iter().try_for_each(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            f.write_char(char::from(*byte))
        }
        _ => write!(f, "%{byte:02X}"),
    })
}

impl FromStr for Name {
    type Err = NameParseError;

    /// Parses `/a/b`, `ndn:/a/b` and `ndn://authority/a/b` (the authority is ignored). One slash at
    /// the end is ignored.
    fn from_str(text: &str) -> Result<Self, NameParseError> {
        let path = match text.strip_prefix("ndn:") {
            Some(rest) => rest
                .strip_prefix("//")
                .map_or(rest, |rest| rest.find('/').map_or("/", |at| &rest[at..])),
            None => text,
        };
        let Some(path) = path.strip_prefix('/') else {
            return Err(NameParseError {
                component: text.to_owned(),
                problem: "is not a name: a name starts with \"/\"",
            });
        };
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut name = Name::root();
        if !path.is_empty() {
            for component in path.split('/') {
                push_parsed(&mut name, component).map_err(|problem| NameParseError {
                    component: component.to_owned(),
                    problem,
                })?;
            }
        }
        Ok(name)
    }
}

fn push_parsed(name: &mut Name, text: &str) -> Result<(), &'static str> {
    let Some((prefix, value)) = text.split_once('=') else {
        name.push_generic(&unescape(text)?);
        return Ok(());
    };
    if let Some((_, typ)) = NUMBERS.iter().find(|(short, _)| *short == prefix) {
        // `parse` alone would accept "+7".
        let digits = Some(value).filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits
            .and_then(|digits| digits.parse().ok())
            .ok_or("needs a number from 0 to 2^64 - 1 after \"=\"")?;
        name.push_number(*typ, number);
        return Ok(());
    }
    if let Some((_, typ)) = DIGESTS.iter().find(|(short, _)| *short == prefix) {
        name.push(
            *typ,
            &parse_digest(value).ok_or("needs 64 hexadecimal digits after \"=\"")?,
        );
        return Ok(());
    }
    const TYPE: &str = "starts with neither a component type from 1 to 65535 nor one of seg, off, v, t, seq, sha256digest, \
                        params-sha256 (write %3D for \"=\" itself)";
    let typ = prefix
        .parse::<u16>()
        .ok()
        .filter(|typ| *typ != 0 && typ.to_string() == prefix)
        .ok_or(TYPE)?;
    let value = unescape(value)?;
    if DIGESTS.iter().any(|(_, digest)| *digest == typ) && value.len() != 32 {
        return Err("is a digest, which has 32 bytes");
    }
    name.push(typ, &value);
    Ok(())
}

fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    if text.bytes().all(|byte| byte == b'.') {
        let periods = text.len().checked_sub(3);
        return periods
            .map(|count| vec![b'.'; count])
            .ok_or("has too few periods: write \"...\" for an empty component");
    }
    let mut value = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        value.push(match byte {
            b'%' => {
                let pair = bytes
                    .next()
                    .and_then(hex_digit)
                    .zip(bytes.next().and_then(hex_digit));
                pair.map(|(high, low)| high << 4 | low)
                    .ok_or("needs two hexadecimal digits after \"%\"")?
            }
            _ => byte,
        });
    }
    Ok(value)
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.bytes().map(hex_digit).collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0))
        .collect();
    bytes.try_into().ok().filter(|_| digits.len() == 64)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

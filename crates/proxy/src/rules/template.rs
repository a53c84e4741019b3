//! Texts with variables, such as `https://$host$request_uri`, under nginx's names.

use crate::message::host_pattern::without_port;
use crate::message::target::{Target, decoded, encoded};
use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A text with variables.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable(Variable),
}

/// The variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variable {
    Scheme,
    /// Without a port.
    Host,
    /// With its port, if it is not the scheme's own.
    HttpHost,
    RequestUri,
    Uri,
    DecodedUri,
    Args,
    IsArgs,
    RemoteAddr,
    /// The part of the path for a `*` of the pattern, from 1.
    Capture(usize),
    /// The same, decoded.
    DecodedCapture(usize),
}

const NAMES: [(&str, Variable); 9] = [
    ("scheme", Variable::Scheme),
    ("host", Variable::Host),
    ("http_host", Variable::HttpHost),
    ("request_uri", Variable::RequestUri),
    ("uri", Variable::Uri),
    ("decoded_uri", Variable::DecodedUri),
    ("args", Variable::Args),
    ("is_args", Variable::IsArgs),
    ("remote_addr", Variable::RemoteAddr),
];

/// What a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A URL: decoded values are encoded again.
    Url,
    /// The value of a field.
    Field,
}

/// The values of the variables for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host as it is keyed, with its port.
    pub host: String,
    /// Path and query, in their normal form.
    pub target: String,
    /// The client.
    pub client: IpAddr,
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Template, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let mut literal = before.to_owned();
            if let Some(after) = after.strip_prefix('$') {
                literal.push('$');
                parts.push(Part::Text(literal));
                rest = after;
                continue;
            }
            let (name, after) = name(after)?;
            parts.push(Part::Text(literal));
            parts.push(Part::Variable(variable(name)?));
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        Ok(Template {
            text: text.to_owned(),
            parts,
        })
    }
}

/// Splits `name...` or `{name}...` into the name and the rest.
fn name(text: &str) -> Result<(&str, &str), String> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced
            .split_once('}')
            .ok_or_else(|| "a ${ is not closed by }".to_owned());
    }
    let start = text.len() - text.strip_prefix(DECODED).unwrap_or(text).len();
    let is_digit = text[start..].starts_with(|c: char| c.is_ascii_digit());
    let in_name = |c: char| {
        if is_digit {
            c.is_ascii_digit()
        } else {
            c.is_ascii_alphabetic() || c == '_'
        }
    };
    let end = text[start..]
        .find(|c| !in_name(c))
        .map_or(text.len(), |end| start + end);
    Ok(text.split_at(end))
}

const DECODED: &str = "decoded_";

fn variable(name: &str) -> Result<Variable, String> {
    if let Ok(number @ 1..=9) = name.parse() {
        return Ok(Variable::Capture(number));
    }
    if let Some(Ok(number @ 1..=9)) = name.strip_prefix(DECODED).map(str::parse) {
        return Ok(Variable::DecodedCapture(number));
    }
    let known = NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, variable)| *variable);
    known.ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!(
            "there is no variable ${name}; there are ${}, and $1 to $9 and $decoded_1 to $decoded_9 for each * of path; $$ is a $",
            names.join(", $")
        )
    })
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl Template {
    /// Returns the text if it has no variables.
    pub(super) fn constant(&self) -> Option<String> {
        let mut all = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => all.push_str(text),
                Part::Variable(_) => return None,
            }
        }
        Some(all)
    }

    /// Returns the largest number of a capture; 0 without one.
    pub(super) fn captures(&self) -> usize {
        let number = |part: &Part| match part {
            Part::Variable(Variable::Capture(number) | Variable::DecodedCapture(number)) => *number,
            _ => 0,
        };
        self.parts.iter().map(number).max().unwrap_or(0)
    }

    /// Returns the text with the values. Captures are parts of the target in its normal form.
    pub(super) fn expand(&self, values: &Values, captures: &[&str], place: Place) -> Vec<u8> {
        let mut all = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => all.extend_from_slice(text.as_bytes()),
                Part::Variable(variable) => {
                    all.extend_from_slice(&variable.value(values, captures, place))
                }
            }
        }
        all
    }
}

impl Variable {
    fn value<'a>(self, values: &'a Values, captures: &[&'a str], place: Place) -> Cow<'a, [u8]> {
        let target = Target::from(values.target.as_str());
        let capture = |number: usize| captures.get(number - 1).copied().unwrap_or_default();
        let decoded = |text: &'a str| match place {
            Place::Url => Cow::Owned(encoded(&decoded(text)).into_bytes()),
            Place::Field => decoded(text),
        };
        let text = match self {
            Variable::Scheme => values.scheme,
            Variable::Host => without_port(&values.host),
            Variable::HttpHost => &values.host,
            Variable::RequestUri => &values.target,
            Variable::Uri => target.path(),
            Variable::DecodedUri => return decoded(target.path()),
            Variable::Args => target.query().unwrap_or_default(),
            Variable::IsArgs => target.query().map_or("", |_| "?"),
            Variable::RemoteAddr => {
                return Cow::Owned(values.client.to_canonical().to_string().into_bytes());
            }
            Variable::Capture(number) => capture(number),
            Variable::DecodedCapture(number) => return decoded(capture(number)),
        };
        Cow::Borrowed(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_lost_or_a_capture_breaks_a_line() {
        let values = Values {
            scheme: "https",
            host: "a.example:8080".to_owned(),
            target: "/a/b%2Fc?c=d".to_owned(),
            client: "::ffff:192.0.2.1".parse().unwrap(),
        };
        let expand = |text: &str, place| {
            let expanded =
                text.parse::<Template>()
                    .unwrap()
                    .expand(&values, &["x%20y%0D%0Az%25", "2"], place);
            String::from_utf8(expanded).unwrap()
        };
        for (text, expanded) in [
            ("", ""),
            ("plain", "plain"),
            (
                "$scheme://$http_host$request_uri",
                "https://a.example:8080/a/b%2Fc?c=d",
            ),
            ("$host$uri$is_args$args", "a.example/a/b%2Fc?c=d"),
            ("/new/$1/${2}0", "/new/x%20y%0D%0Az%25/20"),
            ("$3|$$1|$remote_addr", "|$1|192.0.2.1"),
            ("$decoded_2|${decoded_2}0", "2|20"),
        ] {
            assert_eq!(expand(text, Place::Url), expanded, "{text}");
            assert_eq!(expand(text, Place::Field), expanded, "{text}");
        }
        assert_eq!(
            expand("$decoded_uri $decoded_1", Place::Url),
            "/a/b/c x%20y%0D%0Az%25"
        );
        assert_eq!(
            expand("$decoded_uri $decoded_1", Place::Field),
            "/a/b/c x y\r\nz%"
        );
        for wrong in [
            "$",
            "$hots",
            "${host",
            "$0",
            "$10",
            "$decoded_",
            "$decoded_0",
        ] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
    }
}

//! Texts with variables, such as `https://$host$request_uri`, under nginx's names.

use super::pattern::encoded;
use super::target::Target;
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
    Host,
    RequestUri,
    Uri,
    Args,
    IsArgs,
    RemoteAddr,
    /// The characters of a `*` of the path pattern, from 1.
    Capture(usize),
}

const NAMES: [(&str, Variable); 7] = [
    ("scheme", Variable::Scheme),
    ("host", Variable::Host),
    ("request_uri", Variable::RequestUri),
    ("uri", Variable::Uri),
    ("args", Variable::Args),
    ("is_args", Variable::IsArgs),
    ("remote_addr", Variable::RemoteAddr),
];

/// The values of the variables for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The host as it is keyed.
    pub host: String,
    /// Path and query.
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
        Ok(Template { text: text.to_owned(), parts })
    }
}

/// Splits `name...` or `{name}...` into the name and the rest.
fn name(text: &str) -> Result<(&str, &str), String> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').ok_or_else(|| "a ${ is not closed by }".to_owned());
    }
    let is_digit = text.starts_with(|c: char| c.is_ascii_digit());
    let in_name = |c: char| if is_digit { c.is_ascii_digit() } else { c.is_ascii_alphabetic() || c == '_' };
    Ok(text.split_at(text.find(|c| !in_name(c)).unwrap_or(text.len())))
}

fn variable(name: &str) -> Result<Variable, String> {
    if let Ok(number @ 1..=9) = name.parse() {
        return Ok(Variable::Capture(number));
    }
    let known = NAMES.iter().find(|(known, _)| *known == name).map(|(_, variable)| *variable);
    known.ok_or_else(|| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!(
            "there is no variable ${name}; there are ${}, and $1 to $9 for each * of path; $$ is a $",
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
            Part::Variable(Variable::Capture(number)) => *number,
            _ => 0,
        };
        self.parts.iter().map(number).max().unwrap_or(0)
    }

    /// Returns the text with the values. Captures are of the decoded path, so they are encoded: no
    /// value has a character that a request line could not have.
    pub(super) fn expand(&self, values: &Values, captures: &[&str]) -> String {
        let target = || Target::from(values.target.as_str());
        let mut all = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => all.push_str(text),
                Part::Variable(variable) => match variable {
                    Variable::Scheme => all.push_str(values.scheme),
                    Variable::Host => all.push_str(&values.host),
                    Variable::RequestUri => all.push_str(&values.target),
                    Variable::Uri => all.push_str(target().path()),
                    Variable::Args => all.push_str(target().query().unwrap_or_default()),
                    Variable::IsArgs if target().query().is_some() => all.push('?'),
                    Variable::IsArgs => {}
                    Variable::RemoteAddr => all.push_str(&values.client.to_canonical().to_string()),
                    Variable::Capture(number) => {
                        all.push_str(&encoded(captures.get(number - 1).copied().unwrap_or_default()));
                    }
                },
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_lost_or_a_capture_breaks_a_line() {
        let values = Values {
            scheme: "https",
            host: "a.example".to_owned(),
            target: "/a/b?c=d".to_owned(),
            client: "::ffff:192.0.2.1".parse().unwrap(),
        };
        let expand = |text: &str| text.parse::<Template>().unwrap().expand(&values, &["x y\r\nz%", "2"]);
        for (text, expanded) in [
            ("", ""),
            ("plain", "plain"),
            ("$scheme://$host$request_uri", "https://a.example/a/b?c=d"),
            ("$uri$is_args$args", "/a/b?c=d"),
            ("/new/$1/${2}0", "/new/x%20y%0D%0Az%25/20"),
            ("$3|$$1|$remote_addr", "|$1|192.0.2.1"),
        ] {
            assert_eq!(expand(text), expanded, "{text}");
        }
        for wrong in ["$", "$hots", "${host", "$0", "$10"] {
            assert!(wrong.parse::<Template>().is_err(), "{wrong}");
        }
    }
}

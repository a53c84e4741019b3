//! Congestion controls by name: `cubic`, `rate(start=200,nack=halve)`.
//!
//! ```text
//! spec     = name [ "(" argument *("," argument) ")" ]
//! argument = parameter "=" value
//! ```
//!
//! The table below is the only list of them. The parser, its errors and the list of the command
//! line come from it.

use super::entry::{Entry, Given, Parameter};
use super::{CongestionControl, aimd, bbr, bic, cubic, explicit, fixed, icp, pcon, rate};
use std::fmt;
use std::str::FromStr;

/// Every algorithm; the first one is the default.
static ALGORITHMS: &[Entry] = &[
    cubic::ENTRY,
    aimd::ENTRY,
    bbr::ENTRY,
    bic::ENTRY,
    explicit::ENTRY,
    fixed::ENTRY,
    icp::ENTRY,
    pcon::ENTRY,
    rate::ENTRY,
];

/// A congestion control by name, parsed and checked. It can be built for any number of transfers.
#[derive(Clone)]
pub struct CongestionSpec {
    entry: &'static Entry,
    /// The values in the order of the entry's parameters.
    values: Vec<f64>,
    /// The text as given, without blanks.
    text: String,
}

impl CongestionSpec {
    /// Creates a control for one transfer.
    pub fn build(&self) -> Box<dyn CongestionControl> {
        (self.entry.build)(&Given {
            entry: self.entry,
            values: &self.values,
        })
    }
}

impl Default for CongestionSpec {
    /// Returns CUBIC.
    fn default() -> Self {
        let entry = &ALGORITHMS[0];
        let values = entry.parameters.iter().map(Parameter::default).collect();
        CongestionSpec {
            entry,
            values,
            text: entry.name.to_owned(),
        }
    }
}

impl fmt::Display for CongestionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CongestionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CongestionSpec({})", self.text)
    }
}

impl FromStr for CongestionSpec {
    type Err = CongestionSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let fault = |problem: String| Err(CongestionSpecError(problem));
        let (name, arguments) = match text.split_once('(') {
            None => (text.as_str(), ""),
            Some((name, rest)) => match rest.strip_suffix(')') {
                Some(arguments) => (name, arguments),
                None => return fault(format!("`{}`: the closing `)` is missing", shown(&text))),
            },
        };
        let Some(entry) = ALGORITHMS.iter().find(|entry| entry.name == name) else {
            let names: Vec<&str> = ALGORITHMS.iter().map(|entry| entry.name).collect();
            let near = names.iter().find(|known| is_near(known, name));
            let hint = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            return fault(format!(
                "no congestion control `{}`{hint}; there are {}",
                shown(name),
                names.join(", ")
            ));
        };
        let mut values: Vec<f64> = entry.parameters.iter().map(Parameter::default).collect();
        for argument in arguments.split(',').filter(|argument| !argument.is_empty()) {
            let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
            let Some(at) = entry
                .parameters
                .iter()
                .position(|parameter| parameter.name == key)
            else {
                let known: Vec<&str> = entry
                    .parameters
                    .iter()
                    .map(|parameter| parameter.name)
                    .collect();
                let known = if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                };
                return fault(format!(
                    "{name} has no parameter `{}`; there is {known}",
                    shown(key)
                ));
            };
            values[at] = match entry.parameters[at].read(value) {
                Some(value) => value,
                None => {
                    return fault(format!(
                        "{name}: {key} is {}, not `{}`",
                        entry.parameters[at].range(),
                        shown(value)
                    ));
                }
            };
        }
        Ok(CongestionSpec {
            entry,
            values,
            text,
        })
    }
}

/// Returns every congestion control: its name, and one line with its description, its parameters,
/// and the reason if it is experimental.
pub fn congestion_controls() -> impl Iterator<Item = (&'static str, String)> {
    ALGORITHMS.iter().map(|entry| {
        let parameters = entry
            .parameters
            .iter()
            .map(|parameter| format!("; {}: {}", parameter.name, parameter.description));
        let experimental = entry
            .experimental
            .map(|reason| format!("; experimental: {reason}"));
        let line = format!(
            "{}{}{}",
            entry.description,
            parameters.collect::<String>(),
            experimental.unwrap_or_default()
        );
        (entry.name, line)
    })
}

/// A text that does not name a congestion control, with the reason in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CongestionSpecError(String);

impl fmt::Display for CongestionSpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CongestionSpecError {}

/// Returns the input for an error message: shortened, and without control characters.
fn shown(text: &str) -> String {
    text.chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect()
}

/// Returns true if the words differ by one inserted, deleted or replaced letter.
fn is_near(known: &str, given: &str) -> bool {
    let same = known
        .bytes()
        .zip(given.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let (known, given) = (&known.as_bytes()[same..], &given.as_bytes()[same..]);
    let after = |text: &'_ [u8]| text.get(1..).unwrap_or_default().to_vec();
    after(known) == after(given) || after(known) == given || known == after(given)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_algorithm_is_made_by_its_name_and_prints_as_it_was_given() {
        for (name, description) in congestion_controls() {
            let spec: CongestionSpec = name.parse().unwrap();
            assert_eq!(spec.to_string(), name);
            assert!(spec.build().window() >= 1 && !description.is_empty());
            assert_eq!(
                description.contains("; experimental: "),
                ["explicit", "icp"].contains(&name),
                "{description}"
            );
        }
        let spec: CongestionSpec = " rate( start = 300, nack=step )".parse().unwrap();
        assert_eq!(spec.to_string(), "rate(start=300,nack=step)");
        assert_eq!(spec.build().rate(), Some(300.0));
        assert_eq!(
            "fixed(window=7)"
                .parse::<CongestionSpec>()
                .unwrap()
                .build()
                .window(),
            7
        );
    }

    #[test]
    fn what_is_wrong_is_not_said() {
        let error = |text: &str| text.parse::<CongestionSpec>().unwrap_err().to_string();
        assert!(
            error("cubi").contains("did you mean `cubic`?"),
            "{}",
            error("cubi")
        );
        assert!(error("rates").contains("`rate`?"));
        assert!(error("reno").ends_with("cubic, aimd, bbr, bic, explicit, fixed, icp, pcon, rate"));
        assert!(error("fixed(windows=7)").contains("there is window"));
        assert!(error("fixed(window=0)").contains("from 1 to"));
        assert!(error("fixed(window=nan)").contains("not `nan`"));
        assert!(error("rate(nack=twice)").contains("once, halve, step"));
        assert!(error("bbr(gain=2)").contains("there is none"));
        assert!(error("fixed(window=7").contains("missing"));
        assert!(error("\u{1b}[31m").is_ascii());
    }

    proptest! {
        #[test]
        fn a_text_from_outside_panics(text in ".{0,60}") {
            let _ = text.parse::<CongestionSpec>();
            let _ = format!("rate({text})").parse::<CongestionSpec>();
        }
    }
}

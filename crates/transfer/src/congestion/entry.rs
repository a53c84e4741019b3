//! The entry of an algorithm in the table of congestion controls: its name, parameters and
//! constructor.

use super::CongestionControl;

/// One algorithm.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    /// The reason why the algorithm is experimental, if it is.
    pub(super) experimental: Option<&'static str>,
    pub(super) parameters: &'static [Parameter],
    /// Creates a control; the values are within their ranges.
    pub(super) build: fn(&Given<'_>) -> Box<dyn CongestionControl>,
}

/// A parameter of an algorithm.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    kind: Kind,
}

enum Kind {
    Number {
        default: f64,
        least: f64,
        most: f64,
    },
    /// A choice of words; the first one is the default.
    Choice(&'static [&'static str]),
}

impl Parameter {
    pub(super) const fn number(
        name: &'static str,
        default: f64,
        least: f64,
        most: f64,
        description: &'static str,
    ) -> Self {
        Parameter {
            name,
            description,
            kind: Kind::Number {
                default,
                least,
                most,
            },
        }
    }

    pub(super) const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        description: &'static str,
    ) -> Self {
        Parameter {
            name,
            description,
            kind: Kind::Choice(words),
        }
    }

    /// Parses a value: a number, or the index of a word.
    pub(super) fn read(&self, text: &str) -> Option<f64> {
        match self.kind {
            Kind::Number { least, most, .. } => text
                .parse()
                .ok()
                .filter(|value| (least..=most).contains(value)),
            Kind::Choice(words) => words
                .iter()
                .position(|word| *word == text)
                .map(|at| at as f64),
        }
    }

    pub(super) fn default(&self) -> f64 {
        match self.kind {
            Kind::Number { default, .. } => default,
            Kind::Choice(_) => 0.0,
        }
    }

    pub(super) fn range(&self) -> String {
        match self.kind {
            Kind::Number { least, most, .. } => format!("a number from {least} to {most}"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// The arguments of a spec, with defaults for the others.
pub(super) struct Given<'a> {
    pub(super) entry: &'static Entry,
    /// The values in the order of the entry's parameters.
    pub(super) values: &'a [f64],
}

impl Given<'_> {
    pub(super) fn number(&self, name: &str) -> f64 {
        let parameter = self
            .entry
            .parameters
            .iter()
            .position(|parameter| parameter.name == name);
        parameter.map_or(f64::NAN, |at| self.values[at])
    }

    pub(super) fn choice(&self, name: &str) -> usize {
        self.number(name) as usize
    }
}

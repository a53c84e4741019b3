//! The grammar of policy specs: `filter(theta=2)+fifo`.
//!
//! ```text
//! spec     = *(stage "+") stage          the last evicts, the others admit, from left to right
//! stage    = name [ "(" [argument *("," argument)] ")" ]
//! argument = name "=" value / word       a word is a value of the policy's parameter of choices
//! ```
//!
//! Blanks around a token are allowed, and printed away; everything else is printed as it was given.

use crate::limits::{MAX_SPEC_BYTES, MAX_STAGES};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::registry::{Kind, PolicyEntry, registry};
use std::fmt;
use std::str::FromStr;

/// A composition of policies, parsed and checked: every name is known and every value in its range.
///
/// ```
/// let spec: larder_policy::Spec = " filter( theta = 3 ) + fifo".parse().unwrap();
/// assert_eq!(spec.to_string(), "filter(theta=3)+fifo");
/// let error = "filter+lur".parse::<larder_policy::Spec>().unwrap_err();
/// assert_eq!(error.to_string(), "policy `filter+lur`, byte 7: unknown policy `lur`, did you mean `lru`?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    stages: Vec<Stage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stage {
    /// Its place in the registry.
    policy: usize,
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Argument {
    parameter: &'static str,
    /// As it was given.
    text: String,
    /// A word without its parameter's name.
    bare: bool,
    value: u64,
}

impl Spec {
    pub(crate) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// A stage depends on the cache's place on the path of an answer: see
    /// [`crate::Engine::admit_from`].
    pub fn needs_path(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage.entry().name, "lcd" | "probcache" | "betweenness"))
    }

    /// A stage knows the trace ahead: see [`crate::Engine::foreseeing`].
    pub fn is_offline(&self) -> bool {
        self.stages.iter().any(|stage| stage.entry().is_offline())
    }
}

impl Stage {
    pub(crate) fn entry(&self) -> &'static PolicyEntry {
        &registry()[self.policy]
    }

    /// Calls `build` with the stage's arguments.
    pub(crate) fn with_arguments<T>(&self, build: impl FnOnce(&Arguments<'_>) -> T) -> T {
        let given: Vec<_> = self.arguments.iter().map(|a| (a.parameter, a.value)).collect();
        build(&Arguments { parameters: self.entry().parameters, given: &given })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.stages.iter().enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            f.write_str(stage.entry().name)?;
            for (index, argument) in stage.arguments.iter().enumerate() {
                f.write_str(if index == 0 { "(" } else { "," })?;
                if !argument.bare {
                    write!(f, "{}=", argument.parameter)?;
                }
                f.write_str(&argument.text)?;
            }
            if !stage.arguments.is_empty() {
                f.write_str(")")?;
            }
        }
        Ok(())
    }
}

/// A text that is not a policy spec: where, what, and a suggestion where there is one. Printed as
/// one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    spec: String,
    at: usize,
    problem: String,
    suggestion: Option<String>,
}

impl SpecError {
    /// The byte offset of what is wrong.
    pub fn at(&self) -> usize {
        self.at
    }

    /// What was probably meant.
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }

    /// Arguments of the stage at `index` that contradict each other, found when the policy was
    /// built.
    pub(crate) fn contradiction(spec: &Spec, index: usize, problem: String) -> Self {
        let text = spec.to_string();
        let at = text.split('+').take(index).map(|stage| stage.len() + 1).sum();
        SpecError { spec: text, at, problem, suggestion: None }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}`, byte {}: {}", self.spec.escape_debug(), self.at, self.problem)?;
        match &self.suggestion {
            Some(suggestion) => write!(f, ", did you mean `{suggestion}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SpecError {}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        if text.len() > MAX_SPEC_BYTES {
            return Err(SpecError {
                spec: text.chars().take(32).chain("…".chars()).collect(),
                at: MAX_SPEC_BYTES,
                problem: format!("longer than {MAX_SPEC_BYTES} bytes"),
                suggestion: None,
            });
        }
        let mut parser = Parser { text, at: 0 };
        let mut stages = Vec::new();
        loop {
            let at = parser.skip_blanks();
            if stages.len() == MAX_STAGES {
                return Err(parser.error(at, format!("more than {MAX_STAGES} stages")));
            }
            let stage = parser.stage()?;
            let more = parser.take('+');
            match (stage.entry().kind(), more) {
                (Kind::Eviction, true) => {
                    let name = stage.entry().name;
                    return Err(parser.error(at, format!("`{name}` evicts and must stand last")));
                }
                (Kind::Admission, false) => {
                    parser.expect_end()?;
                    let name = stage.entry().name;
                    let whole = format!("{}+lru", text.trim());
                    let problem = format!("`{name}` only admits, an eviction policy must follow");
                    return Err(parser.suggest(at, problem, Some(whole)));
                }
                _ => stages.push(stage),
            }
            if !more {
                parser.expect_end()?;
                return Ok(Spec { stages });
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn stage(&mut self) -> Result<Stage, SpecError> {
        let (at, name) = self.word();
        if name.is_empty() {
            return Err(self.error(at, "a policy's name is missing".to_owned()));
        }
        let Some(policy) = registry().iter().position(|entry| entry.name == name) else {
            let names = registry().iter().map(|entry| entry.name);
            return Err(self.suggest(at, format!("unknown policy `{}`", name.escape_debug()), nearest(name, names)));
        };
        let entry = &registry()[policy];
        let arguments = if self.take('(') { self.arguments(entry)? } else { Vec::new() };
        let missing = entry.parameters.iter().find(|parameter| {
            matches!(parameter.default, Preset::Required) && arguments.iter().all(|a| a.parameter != parameter.name)
        });
        if let Some(parameter) = missing {
            let problem = format!("`{name}` needs `{}`, {}", parameter.name, parameter.values);
            return Err(self.error(at, problem));
        }
        Ok(Stage { policy, arguments })
    }

    /// What stands between the parentheses, and the closing one.
    fn arguments(&mut self, entry: &'static PolicyEntry) -> Result<Vec<Argument>, SpecError> {
        let mut arguments: Vec<Argument> = Vec::new();
        if self.take(')') {
            return Ok(arguments);
        }
        loop {
            let at = self.skip_blanks();
            let argument = self.argument(entry)?;
            if arguments.iter().any(|earlier| earlier.parameter == argument.parameter) {
                return Err(self.error(at, format!("`{}` is given twice", argument.parameter)));
            }
            arguments.push(argument);
            if self.take(')') {
                return Ok(arguments);
            }
            if !self.take(',') {
                let at = self.skip_blanks();
                return Err(self.error(at, "`,` or `)` is missing".to_owned()));
            }
        }
    }

    fn argument(&mut self, entry: &'static PolicyEntry) -> Result<Argument, SpecError> {
        let (at, word) = self.word();
        if !self.take('=') {
            return self.bare(entry, at, word);
        }
        let Some(parameter) = entry.parameters.iter().find(|p| p.name == word) else {
            return Err(self.unknown_parameter(entry, at, word, "parameter"));
        };
        let (at, text) = self.word();
        let Some(value) = parameter.values.read(text) else {
            let unit = if parameter.unit.is_empty() { String::new() } else { format!(" ({})", parameter.unit) };
            let problem = format!("`{}={}` is not {}{unit}", parameter.name, text.escape_debug(), parameter.values);
            let suggestion = match parameter.values {
                Values::Choice(words) => nearest(text, words.iter().copied()),
                _ => None,
            };
            return Err(self.suggest(at, problem, suggestion));
        };
        Ok(Argument { parameter: parameter.name, text: text.to_owned(), bare: false, value })
    }

    /// A word without `=`: a value of a parameter of choices.
    fn bare(&self, entry: &'static PolicyEntry, at: usize, word: &str) -> Result<Argument, SpecError> {
        let value_of = |p: &Parameter| matches!(p.values, Values::Choice(_)).then(|| p.values.read(word)).flatten();
        let found = entry.parameters.iter().find_map(|p| value_of(p).map(|value| (p.name, value)));
        match found {
            Some((parameter, value)) => Ok(Argument { parameter, text: word.to_owned(), bare: true, value }),
            None => Err(self.unknown_parameter(entry, at, word, "argument")),
        }
    }

    fn unknown_parameter(&self, entry: &PolicyEntry, at: usize, word: &str, what: &str) -> SpecError {
        let names = entry.parameters.iter().map(|p| p.name);
        let words = entry.parameters.iter().flat_map(|p| match p.values {
            Values::Choice(words) => words,
            _ => &[],
        });
        let meant = nearest(word, names.clone().chain(words.copied()));
        let mut problem = match entry.parameters {
            [] => format!("`{}` takes no arguments", entry.name),
            _ => format!("unknown {what} `{}` of `{}`", word.escape_debug(), entry.name),
        };
        if meant.is_none() && !entry.parameters.is_empty() {
            let names: Vec<String> = names.map(|name| format!("`{name}=`")).collect();
            problem += &format!(", which takes {}", names.join(", "));
        }
        self.suggest(at, problem, meant)
    }

    /// A name or a value, and where it starts: everything up to the next punctuation, without
    /// blanks around.
    fn word(&mut self) -> (usize, &'a str) {
        let at = self.skip_blanks();
        let rest = &self.text[at..];
        let end = rest.find(['+', '(', ')', ',', '=']).unwrap_or(rest.len());
        self.at = at + end;
        (at, rest[..end].trim_end())
    }

    fn take(&mut self, token: char) -> bool {
        let at = self.skip_blanks();
        let found = self.text[at..].starts_with(token);
        if found {
            self.at = at + token.len_utf8();
        }
        found
    }

    fn expect_end(&mut self) -> Result<(), SpecError> {
        let at = self.skip_blanks();
        match self.text[at..].chars().next() {
            None => Ok(()),
            Some(found) => Err(self.error(at, format!("unexpected `{}`", found.escape_debug()))),
        }
    }

    fn skip_blanks(&mut self) -> usize {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    fn error(&self, at: usize, problem: String) -> SpecError {
        self.suggest(at, problem, None)
    }

    fn suggest(&self, at: usize, problem: String, suggestion: Option<String>) -> SpecError {
        SpecError { spec: self.text.to_owned(), at, problem, suggestion }
    }
}

/// The most similar of `names`, if it is similar at all: by swapped and mistyped letters, or, less,
/// by how it begins (`lur` is `lru`, not `lru-k`).
fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = word.to_lowercase();
    let similarity = |name: &str| match strsim::damerau_levenshtein(&word, name) {
        // One slip, which in a short name is a third of the letters.
        1 if word.len() == name.len() => 0.99,
        _ => strsim::normalized_damerau_levenshtein(&word, name).max(strsim::jaro_winkler(&word, name) - 0.1),
    };
    names
        .map(|name| (similarity(name), name))
        .filter(|(similarity, _)| *similarity >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}

//! The grammar of policy specs: `filter(theta=2)+fifo`.
//!
//! ```text
//! spec     = *(stage "+") stage          the last stage evicts, the others admit, left to right
//! stage    = name [ "(" [argument *("," argument)] ")" ]
//! argument = name "=" value / word       a word is a value of the policy's parameter of choices
//! ```
//!
//! Blanks around a token are allowed and are not printed. Case and hyphens of a policy's name do
//! not matter, and it prints as the registry has it. Everything else prints as it was given.

use crate::entry::{Build, Kind, PolicyEntry};
use crate::limits::{MAX_SPEC_BYTES, MAX_STAGES};
use crate::parameters::{Arguments, Parameter, Preset, Values};
use crate::registry::{Registry, registry};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// A composition of policies, parsed and checked: every name is known, and every value is in its
/// range. It refers to the policies' entries, so it can build an engine by itself.
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

#[derive(Clone, Debug)]
pub(crate) struct Stage {
    entry: &'static PolicyEntry,
    arguments: Vec<Argument>,
}

/// Names identify policies: a registry has one entry of each name.
impl PartialEq for Stage {
    fn eq(&self, other: &Stage) -> bool {
        self.entry.name == other.entry.name && self.arguments == other.arguments
    }
}

impl Eq for Stage {}

impl Hash for Stage {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.entry.name.hash(hasher);
        self.arguments.hash(hasher);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Argument {
    parameter: &'static str,
    /// The value as the spec has it.
    text: String,
    /// True if the spec has the value without the parameter's name.
    bare: bool,
    value: u64,
}

impl Spec {
    /// Parses a spec of policies that `registry` lists. The spec keeps their entries, so it builds
    /// engines without the registry. `text.parse()` does the same with the registry of the process,
    /// see [`Registry::install`].
    ///
    /// # Errors
    /// [`SpecError`] for a text that does not follow the grammar, an unknown policy or parameter,
    /// or a value outside its range.
    pub fn parse(text: &str, registry: &Registry) -> Result<Spec, SpecError> {
        if text.len() > MAX_SPEC_BYTES {
            return Err(SpecError {
                spec: text.chars().take(32).chain("…".chars()).collect(),
                at: MAX_SPEC_BYTES,
                problem: format!("longer than {MAX_SPEC_BYTES} bytes"),
                suggestion: None,
            });
        }
        let mut parser = Parser {
            text,
            at: 0,
            registry,
        };
        let mut stages = Vec::new();
        loop {
            let at = parser.skip_blanks();
            if stages.len() == MAX_STAGES {
                return Err(parser.error(at, format!("more than {MAX_STAGES} stages")));
            }
            let stage = parser.stage()?;
            let more = parser.take('+');
            match (stage.entry.kind(), more) {
                (Kind::Eviction, true) => {
                    let name = stage.entry.name;
                    return Err(parser.error(at, format!("`{name}` evicts and must stand last")));
                }
                (Kind::Admission, false) => {
                    parser.expect_end()?;
                    let name = stage.entry.name;
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

    /// Returns the spec of an engine whose policies do not come from a registry.
    pub(crate) fn custom(admissions: usize) -> Spec {
        let stage = |entry| Stage {
            entry,
            arguments: Vec::new(),
        };
        let admissions = (0..admissions).map(|_| stage(&CUSTOM_ADMISSION));
        Spec {
            stages: admissions.chain([stage(&CUSTOM_EVICTION)]).collect(),
        }
    }

    pub(crate) fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Returns the memory that the policies take for each stored object, in bytes: the sum of the
    /// values in their registry entries.
    pub fn bytes_an_object(&self) -> u64 {
        self.stages()
            .iter()
            .map(|stage| u64::from(stage.entry().bytes_an_object))
            .sum()
    }

    /// Returns true if a stage depends on the cache's place on the path of an answer: see
    /// [`crate::Engine::admit_from`].
    pub fn needs_path(&self) -> bool {
        self.stages.iter().any(|stage| stage.entry.needs_path)
    }

    /// Returns true if a stage knows the trace ahead: see [`crate::Engine::foreseeing`].
    pub fn is_offline(&self) -> bool {
        self.stages.iter().any(|stage| stage.entry.is_offline())
    }
}

/// The entry of an admission policy that [`crate::Engine::with`] got as an object.
const CUSTOM_ADMISSION: PolicyEntry = PolicyEntry {
    name: "custom",
    citation: "",
    summary: "a policy that the program supplied as an object",
    parameters: &[],
    complexity: "",
    bytes_an_object: 0,
    needs_path: false,
    build: Build::Admission(|_, _| Err(NOT_REGISTERED.to_owned())),
};

/// The entry of an eviction policy that [`crate::Engine::with`] got as an object.
const CUSTOM_EVICTION: PolicyEntry = PolicyEntry {
    build: Build::Eviction(|_, _| Err(NOT_REGISTERED.to_owned())),
    ..CUSTOM_ADMISSION
};

const NOT_REGISTERED: &str =
    "`custom` is an object that the program supplied, which no spec can build";

impl Stage {
    pub(crate) fn entry(&self) -> &'static PolicyEntry {
        self.entry
    }

    /// Returns the result of `build` for the stage's arguments.
    pub(crate) fn with_arguments<T>(&self, build: impl FnOnce(&Arguments<'_>) -> T) -> T {
        let given: Vec<_> = self
            .arguments
            .iter()
            .map(|a| (a.parameter, a.value))
            .collect();
        build(&Arguments {
            parameters: self.entry.parameters,
            given: &given,
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stage) in self.stages.iter().enumerate() {
            if index > 0 {
                f.write_str("+")?;
            }
            f.write_str(stage.entry.name)?;
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

/// A text that is not a policy spec: the place, the problem, and a suggestion if there is one. It
/// prints as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    spec: String,
    at: usize,
    problem: String,
    suggestion: Option<String>,
}

impl SpecError {
    /// Returns the byte offset of the problem.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the text that was probably meant.
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }

    /// Returns the error for the stage at `index`, whose policy refused its arguments when it was
    /// built.
    pub(crate) fn contradiction(spec: &Spec, index: usize, problem: String) -> Self {
        let text = spec.to_string();
        let at = text
            .split('+')
            .take(index)
            .map(|stage| stage.len() + 1)
            .sum();
        SpecError {
            spec: text,
            at,
            problem,
            suggestion: None,
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "policy `{}`, byte {}: {}",
            self.spec.escape_debug(),
            self.at,
            self.problem
        )?;
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
        Spec::parse(text, registry())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    registry: &'a Registry,
}

impl<'a> Parser<'a> {
    fn stage(&mut self) -> Result<Stage, SpecError> {
        let (at, name) = self.word();
        if name.is_empty() {
            return Err(self.error(at, "a policy's name is missing".to_owned()));
        }
        let Some(entry) = self.registry.get(name) else {
            let names = self.registry.iter().map(|entry| entry.name);
            return Err(self.suggest(
                at,
                format!("unknown policy `{}`", name.escape_debug()),
                nearest(name, names),
            ));
        };
        let arguments = if self.take('(') {
            self.arguments(entry)?
        } else {
            Vec::new()
        };
        let missing = entry.parameters.iter().find(|parameter| {
            matches!(parameter.default, Preset::Required)
                && arguments.iter().all(|a| a.parameter != parameter.name)
        });
        if let Some(parameter) = missing {
            let problem = format!("`{name}` needs `{}`, {}", parameter.name, parameter.values);
            return Err(self.error(at, problem));
        }
        Ok(Stage { entry, arguments })
    }

    /// Reads the arguments and the closing parenthesis.
    fn arguments(&mut self, entry: &'static PolicyEntry) -> Result<Vec<Argument>, SpecError> {
        let mut arguments: Vec<Argument> = Vec::new();
        if self.take(')') {
            return Ok(arguments);
        }
        loop {
            let at = self.skip_blanks();
            let argument = self.argument(entry)?;
            if arguments
                .iter()
                .any(|earlier| earlier.parameter == argument.parameter)
            {
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
            let unit = if parameter.unit.is_empty() {
                String::new()
            } else {
                format!(" ({})", parameter.unit)
            };
            let problem = format!(
                "`{}={}` is not {}{unit}",
                parameter.name,
                text.escape_debug(),
                parameter.values
            );
            let suggestion = match parameter.values {
                Values::Choice(words) => nearest(text, words.iter().copied()),
                _ => None,
            };
            return Err(self.suggest(at, problem, suggestion));
        };
        Ok(Argument {
            parameter: parameter.name,
            text: text.to_owned(),
            bare: false,
            value,
        })
    }

    /// Reads a word without `=`, which is a value of a parameter of choices.
    fn bare(
        &self,
        entry: &'static PolicyEntry,
        at: usize,
        word: &str,
    ) -> Result<Argument, SpecError> {
        let value_of = |p: &Parameter| {
            matches!(p.values, Values::Choice(_))
                .then(|| p.values.read(word))
                .flatten()
        };
        let found = entry
            .parameters
            .iter()
            .find_map(|p| value_of(p).map(|value| (p.name, value)));
        match found {
            Some((parameter, value)) => Ok(Argument {
                parameter,
                text: word.to_owned(),
                bare: true,
                value,
            }),
            None => Err(self.unknown_parameter(entry, at, word, "argument")),
        }
    }

    fn unknown_parameter(
        &self,
        entry: &PolicyEntry,
        at: usize,
        word: &str,
        what: &str,
    ) -> SpecError {
        let names = entry.parameters.iter().map(|p| p.name);
        let words = entry.parameters.iter().flat_map(|p| match p.values {
            Values::Choice(words) => words,
            _ => &[],
        });
        let meant = nearest(word, names.clone().chain(words.copied()));
        let mut problem = match entry.parameters {
            [] => format!("`{}` takes no arguments", entry.name),
            _ => format!(
                "unknown {what} `{}` of `{}`",
                word.escape_debug(),
                entry.name
            ),
        };
        if meant.is_none() && !entry.parameters.is_empty() {
            let names: Vec<String> = names.map(|name| format!("`{name}=`")).collect();
            problem += &format!(", which takes {}", names.join(", "));
        }
        self.suggest(at, problem, meant)
    }

    /// Reads a name or a value: everything up to the next punctuation, without the blanks around
    /// it. Returns its byte offset too.
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
        SpecError {
            spec: self.text.to_owned(),
            at,
            problem,
            suggestion,
        }
    }
}

/// Returns the most similar of `names`, if one is similar at all. Swapped and mistyped letters
/// count more than a common beginning (`lur` is `lru`, not `lru-k`).
fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = word.to_lowercase();
    let similarity = |name: &str| match strsim::damerau_levenshtein(&word, name) {
        // In a short name, one mistyped letter is a third of all letters.
        1 if word.len() == name.len() => 0.99,
        _ => strsim::normalized_damerau_levenshtein(&word, name)
            .max(strsim::jaro_winkler(&word, name) - 0.1),
    };
    names
        .map(|name| (similarity(name), name))
        .filter(|(similarity, _)| *similarity >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}

//! Strategies by name: `best-route`, or as the NFD management protocol calls them,
//! `/localhost/nfd/strategy/best-route/v=5`, with parameters behind the version:
//! `/localhost/nfd/strategy/best-route/v=5/retx-suppression-max~500`.

use super::{Parameters, STRATEGIES, Strategy, StrategyEntry};
use crate::limits;
use larder_packet::{Name, NameRef};
use larder_units::Streams;
use std::fmt;
use std::sync::OnceLock;

/// The prefix of the strategies' names.
const PREFIX: [&str; 3] = ["localhost", "nfd", "strategy"];

/// A strategy as it is set under a prefix.
pub(crate) struct Instance {
    /// The name with version and parameters.
    name: Name,
    pub(crate) strategy: Box<dyn Strategy>,
    /// A parameter that the strategy does not have.
    unknown: Option<StrategyError>,
}

impl Instance {
    /// Makes the strategy of this name. `streams` supply its random numbers. Parameters that
    /// it does not have are ignored, as in NFD.
    pub(crate) fn new(
        registry: &StrategyRegistry,
        name: &Name,
        streams: &Streams,
    ) -> Result<Instance, StrategyError> {
        let (entry, parameters) = registry.read(name.as_name())?;
        let wrong = |problem| StrategyError::Parameters {
            strategy: entry.name,
            problem,
        };
        let pairs: Option<Vec<(&str, &str)>> =
            parameters.iter().map(|text| text.split_once('~')).collect();
        let pairs = pairs.ok_or_else(|| wrong("a parameter reads KEY~VALUE".to_owned()))?;
        let mut left = Parameters { left: pairs };
        let strategy = (entry.build)(
            &mut left,
            streams.stream(&format!("strategy {}", entry.name)),
        )
        .map_err(wrong)?;
        let unknown = left
            .left
            .first()
            .map(|(key, _)| wrong(format!("there is no parameter {key:?}")));
        Ok(Instance {
            name: full_name(entry, &parameters),
            strategy,
            unknown,
        })
    }

    /// The default of `/`.
    pub(crate) fn default_of_root(streams: &Streams) -> Instance {
        let mut none = Parameters { left: Vec::new() };
        let entry = &STRATEGIES[0];
        #[allow(
            clippy::expect_used,
            reason = "a strategy can be made without parameters: a test makes all of them so"
        )]
        let strategy = (entry.build)(&mut none, streams.stream("strategy of /"))
            .expect("a strategy with its defaults");
        Instance {
            name: full_name(entry, &[]),
            strategy,
            unknown: None,
        }
    }

    /// Returns the name with version and parameters.
    pub(crate) fn instance(&self) -> &Name {
        &self.name
    }
}

/// A name that no strategy has, or parameters that it cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// There is none of this name.
    Unknown {
        /// The name.
        name: Name,
        /// The short names of those that there are.
        known: Vec<&'static str>,
    },
    /// There is one, with another version.
    Version {
        /// The name in this forwarder.
        strategy: Name,
        /// True if the version is older than the one that exists.
        is_older: bool,
    },
    /// The parameters are wrong.
    Parameters {
        /// The strategy.
        strategy: &'static str,
        /// The error.
        problem: String,
    },
    /// It cannot be registered.
    NotRegistered {
        /// The short name.
        name: &'static str,
        /// The reason.
        problem: &'static str,
    },
    /// The prefix under which it should be set is too long.
    PrefixTooLong,
    /// Too many prefixes have a strategy of their own.
    Full,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyError::Unknown { name, known } => {
                write!(
                    f,
                    "there is no strategy {name}; there are {}",
                    known.join(", ")
                )
            }
            StrategyError::NotRegistered { name, problem } => {
                write!(f, "the strategy {name:?} cannot be registered: {problem}")
            }
            StrategyError::Version { strategy, .. } => {
                write!(f, "the strategy has another version: {strategy}")
            }
            StrategyError::Parameters { strategy, problem } => write!(f, "{strategy}: {problem}"),
            StrategyError::PrefixTooLong => {
                write!(
                    f,
                    "a prefix has at most {} components and {} bytes",
                    limits::PREFIX_COMPONENTS,
                    limits::PREFIX_BYTES
                )
            }
            StrategyError::Full => {
                write!(
                    f,
                    "at most {} prefixes have a strategy of their own: unset some",
                    limits::STRATEGY_CHOICES
                )
            }
        }
    }
}

impl std::error::Error for StrategyError {}

static PROCESS: OnceLock<StrategyRegistry> = OnceLock::new();

/// The strategies that can be chosen: the built-in ones, and those that a program registered.
#[derive(Clone, Debug, Default)]
pub struct StrategyRegistry {
    registered: Vec<StrategyEntry>,
}

impl StrategyRegistry {
    /// Returns a registry of the built-in strategies.
    pub fn builtin() -> Self {
        StrategyRegistry::default()
    }

    /// Adds a strategy, which can then be chosen by its name.
    ///
    /// # Errors
    /// [`StrategyError::NotRegistered`] if the name is taken, or has other characters than
    /// lower-case letters, digits and hyphens.
    pub fn register(&mut self, entry: StrategyEntry) -> Result<(), StrategyError> {
        let refused = |problem| {
            Err(StrategyError::NotRegistered {
                name: entry.name,
                problem,
            })
        };
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if entry.name.is_empty() || !entry.name.bytes().all(is_plain) {
            return refused("a name has lower-case letters, digits and hyphens only");
        }
        if self.entries().any(|known| known.name == entry.name) {
            return refused("the name is taken");
        }
        self.registered.push(entry);
        Ok(())
    }

    /// Makes this the registry of the process: [`strategy_by_name`] reads it, and each new
    /// `Forwarder` begins with it. So configuration files, command lines and scenarios know its
    /// strategies.
    ///
    /// Call it first in `main`. A library does not call it.
    ///
    /// # Errors
    /// Returns this registry if the process has one already, because of an earlier call, or because
    /// the registry of the process was read before.
    pub fn install(self) -> Result<(), StrategyRegistry> {
        PROCESS.set(self)
    }

    /// Returns the registry of the process: the installed one, else the built-in one.
    pub fn installed() -> &'static StrategyRegistry {
        PROCESS.get_or_init(StrategyRegistry::builtin)
    }

    /// Returns the short names of all strategies.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries().map(|entry| entry.name)
    }

    /// Returns the complete name of the strategy called `text`: `best-route`, or its name in the
    /// NFD management protocol, with or without version and parameters.
    ///
    /// # Errors
    /// [`StrategyError`] if it does not exist, or its parameters are wrong or unknown.
    pub fn by_name(&self, text: &str) -> Result<Name, StrategyError> {
        let named = |text: &str| text.parse::<Name>().map_err(|_| self.unknown(Name::root()));
        let name = if text.starts_with('/') {
            named(text)?
        } else {
            let mut name = Name::root();
            for component in &PREFIX {
                _ = name.push_generic(component.as_bytes());
            }
            name.append(named(&format!("/{text}"))?.as_name());
            name
        };
        let instance = Instance::new(self, &name, &Streams::new(0))?;
        match instance.unknown {
            Some(error) => Err(error),
            None => Ok(instance.name),
        }
    }

    /// Returns the built-in strategies and the registered ones.
    pub fn entries(&self) -> impl Iterator<Item = &StrategyEntry> {
        STRATEGIES.iter().chain(&self.registered)
    }

    fn unknown(&self, name: Name) -> StrategyError {
        StrategyError::Unknown {
            name,
            known: self.names().collect(),
        }
    }

    /// Returns the strategy that a name means, and the parameters in the name.
    fn read(&self, name: NameRef<'_>) -> Result<(&StrategyEntry, Vec<String>), StrategyError> {
        let unknown = || self.unknown(name.to_name());
        let mut components = name.components();
        for expected in PREFIX {
            components
                .next()
                .filter(|component| component.value == expected.as_bytes())
                .ok_or_else(unknown)?;
        }
        let short = components.next().ok_or_else(unknown)?;
        let entry = self
            .entries()
            .find(|entry| entry.name.as_bytes() == short.value)
            .ok_or_else(unknown)?;
        let mut components = components.peekable();
        if let Some(version) = components
            .peek()
            .and_then(|component| component.as_version())
        {
            components.next();
            if version != entry.version {
                let is_older = version < entry.version;
                return Err(StrategyError::Version {
                    strategy: full_name(entry, &[]),
                    is_older,
                });
            }
        }
        Ok((
            entry,
            components
                .map(|component| String::from_utf8_lossy(component.value).into_owned())
                .collect(),
        ))
    }
}

/// Returns the complete name of the strategy called `text` in the registry of the process: see
/// [`StrategyRegistry::by_name`] and [`StrategyRegistry::install`].
///
/// # Errors
/// [`StrategyError`] if it does not exist, or its parameters are wrong or unknown.
pub fn strategy_by_name(text: &str) -> Result<Name, StrategyError> {
    StrategyRegistry::installed().by_name(text)
}

/// Returns the short names of the built-in strategies.
pub fn strategy_names() -> impl Iterator<Item = &'static str> {
    STRATEGIES.iter().map(|entry| entry.name)
}

fn full_name(entry: &StrategyEntry, parameters: &[String]) -> Name {
    let mut name = Name::root();
    for component in PREFIX.iter().chain([&entry.name]) {
        _ = name.push_generic(component.as_bytes());
    }
    name.push_version(entry.version);
    for parameter in parameters {
        _ = name.push_generic(parameter.as_bytes());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_made_by_its_short_name_and_by_its_whole_one() {
        for short in strategy_names() {
            let whole = strategy_by_name(short).unwrap();
            assert_eq!(
                strategy_by_name(&whole.to_string()),
                Ok(whole.clone()),
                "{short}"
            );
            let mut unversioned = whole.clone();
            unversioned.truncate(4);
            assert_eq!(strategy_by_name(&unversioned.to_string()), Ok(whole));
        }
    }

    #[test]
    fn what_is_no_strategy_says_what_there_is() {
        let error = |text: &str| strategy_by_name(text).unwrap_err().to_string();
        assert!(
            error("best").contains("best-route, multicast, asf, random, stateful, hobhis"),
            "{}",
            error("best")
        );
        assert!(error("/localhost/nfd/strategy/best-route/v=99").contains("best-route/v=5"));
        assert!(error("best-route/v=5/no-such~1").contains("no-such"));
        assert!(error("best-route/v=5/retx-suppression-max~fast").contains("fast"));
        assert!(error("best-route/v=5/retx").contains("KEY~VALUE"));
        assert!(error("asf/v=5/probing-interval~10").contains("1000 ms"));
        assert!(error("stateful/v=1/rate~0").contains("rate"));
        assert!(error("hobhis/v=1/queue~0").contains("queue is 1 to"));
        assert!(error("stateful/v=1/aimd~fast").contains("off, halve, step"));
        assert!(error("%zz").contains("best-route"));
    }

    #[test]
    fn parameters_are_kept_in_the_name() {
        let name = strategy_by_name("best-route/v=5/retx-suppression-max~500").unwrap();
        assert_eq!(
            name.to_string(),
            "/localhost/nfd/strategy/best-route/v=5/retx-suppression-max~500"
        );
    }
}

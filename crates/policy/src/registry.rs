//! The list of policies by name: the built-in ones, and those that a program registers.
//!
//! The parser, its suggestions, `larder policies`, the documentation and the tests over all
//! policies read this list. Each policy's entry is in the policy's own file, so a new built-in
//! policy is one file and one line here.

use crate::admit;
use crate::entry::PolicyEntry;
use crate::evict;
use std::fmt;
use std::sync::OnceLock;

static BUILTIN: &[PolicyEntry] = &[
    evict::agd::ENTRY,
    evict::fifo::ENTRY,
    evict::lru::ENTRY,
    evict::random::ENTRY,
    evict::w_tinylfu::ENTRY,
    evict::wlfu::ENTRY,
    evict::arc::ENTRY,
    evict::belady::ENTRY,
    evict::belady::ENTRY_BY_SIZE,
    evict::car::ENTRY,
    evict::clock::ENTRY,
    evict::clock_pro::ENTRY,
    evict::greedy_dual::ENTRY,
    evict::greedy_dual::ENTRY_WITH_FREQUENCY,
    evict::hyperbolic::ENTRY,
    evict::lecar::ENTRY,
    evict::lfu::ENTRY,
    evict::lhd::ENTRY,
    evict::lirs::ENTRY,
    evict::lru_k::ENTRY,
    evict::random_priority::ENTRY,
    evict::s3fifo::ENTRY,
    evict::sieve::ENTRY,
    evict::slru::ENTRY,
    evict::slru::ENTRY_OF_FOUR,
    evict::two_q::ENTRY,
    admit::filter::ENTRY,
    admit::size::ENTRY,
    admit::adaptsize::ENTRY,
    admit::after::ENTRY,
    admit::betweenness::ENTRY,
    admit::bloom::ENTRY,
    admit::expsize::ENTRY,
    admit::hillclimb::ENTRY,
    admit::lcd::ENTRY,
    admit::lce::ENTRY,
    admit::lookahead::ENTRY,
    admit::lookahead::ENTRY_STATIC,
    admit::lrus::ENTRY,
    admit::probability::ENTRY,
    admit::probcache::ENTRY,
    admit::threshold::ENTRY,
    admit::tinylfu::ENTRY,
];

/// A list of policies by name, with which a [`crate::Spec`] is parsed.
///
/// ```
/// # use larder_policy::{Build, PolicyEntry};
/// use larder_policy::{Registry, Spec};
/// # const ENTRY: PolicyEntry = PolicyEntry {
/// #     name: "mine", citation: "", summary: "", parameters: &[], complexity: "O(1)", bytes_an_object: 0,
/// #     needs_path: false, build: Build::Eviction(|_, _| Err("no policy".to_owned())),
/// # };
///
/// let registry = Registry::builtin().register(&ENTRY).unwrap();
/// let spec = Spec::parse("filter(theta=2)+mine", &registry).unwrap();
/// assert_eq!(spec.to_string(), "filter(theta=2)+mine");
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<&'static PolicyEntry>,
}

impl Registry {
    /// Returns the policies of this crate.
    pub fn builtin() -> Registry {
        Registry {
            entries: BUILTIN.iter().collect(),
        }
    }

    /// Adds a policy.
    ///
    /// # Errors
    /// [`RegistryError`] if the name is taken or cannot stand in a spec, if two parameters have the
    /// same name, or if a parameter's preset is not one of its values.
    pub fn register(mut self, entry: &'static PolicyEntry) -> Result<Registry, RegistryError> {
        let name = entry.name;
        let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || !name.bytes().all(is_letter) {
            return Err(RegistryError::Name(name));
        }
        if self.get(name).is_some() {
            return Err(RegistryError::Taken(name));
        }
        for (index, parameter) in entry.parameters.iter().enumerate() {
            if entry.parameters[..index]
                .iter()
                .any(|earlier| earlier.name == parameter.name)
            {
                return Err(RegistryError::ParameterTwice(name, parameter.name));
            }
            if parameter
                .default
                .text()
                .is_some_and(|text| parameter.values.read(text).is_none())
            {
                return Err(RegistryError::Preset(name, parameter.name));
            }
        }
        self.entries.push(entry);
        Ok(self)
    }

    /// Makes this the registry of the process: the one that [`registry`] returns, and that `parse`
    /// of a string reads. So configuration files, command lines and management commands know its
    /// policies.
    ///
    /// Call it first in `main`. A library does not call it.
    ///
    /// # Errors
    /// Returns this registry if the process has one already, because of an earlier call, or because
    /// [`registry`] was called or a string was parsed before.
    pub fn install(self) -> Result<(), Registry> {
        PROCESS.set(self)
    }

    /// Returns the policy with this name. Case and hyphens do not matter: `S3FIFO` and `s3-fifo`
    /// name the same policy. A spec prints the name of the entry.
    pub fn get(&self, name: &str) -> Option<&'static PolicyEntry> {
        let exact = self.iter().find(|entry| entry.name == name);
        exact.or_else(|| {
            self.iter()
                .find(|entry| letters(entry.name).eq(letters(name)))
        })
    }

    /// Returns the policies, the built-in ones first.
    pub fn iter(&self) -> std::iter::Copied<std::slice::Iter<'_, &'static PolicyEntry>> {
        self.entries.iter().copied()
    }

    /// Returns the number of policies.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no policy.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Returns the letters and digits of a name, in lower case.
fn letters(name: &str) -> impl Iterator<Item = u8> {
    name.bytes()
        .filter(|byte| *byte != b'-')
        .map(|byte| byte.to_ascii_lowercase())
}

impl<'a> IntoIterator for &'a Registry {
    type Item = &'static PolicyEntry;
    type IntoIter = std::iter::Copied<std::slice::Iter<'a, &'static PolicyEntry>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

static PROCESS: OnceLock<Registry> = OnceLock::new();

/// Returns the registry of the process: the installed one, else the built-in one. See
/// [`Registry::install`].
pub fn registry() -> &'static Registry {
    PROCESS.get_or_init(Registry::builtin)
}

/// A policy that cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryError {
    /// A policy with this name is registered already.
    Taken(&'static str),
    /// This name has other characters than lower-case letters, digits and `-`, or none.
    Name(&'static str),
    /// This policy has two parameters with this name.
    ParameterTwice(&'static str, &'static str),
    /// This policy's preset of this parameter is not one of its values.
    Preset(&'static str, &'static str),
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Taken(name) => write!(f, "a policy `{name}` is registered already"),
            RegistryError::Name(name) => {
                write!(
                    f,
                    "policy name `{}` needs lower-case letters, digits and `-` only",
                    name.escape_debug()
                )
            }
            RegistryError::ParameterTwice(name, parameter) => {
                write!(f, "policy `{name}` has two parameters `{parameter}`")
            }
            RegistryError::Preset(name, parameter) => {
                write!(
                    f,
                    "policy `{name}`: the preset of `{parameter}` is not one of its values"
                )
            }
        }
    }
}

impl std::error::Error for RegistryError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::entry::Build;
    use crate::parameters::{Parameter, Preset, Values};

    #[test]
    fn a_default_that_its_own_parser_refuses() {
        for entry in registry() {
            for parameter in entry.parameters {
                if let Some(text) = parameter.default.text() {
                    assert!(
                        parameter.values.read(text).is_some(),
                        "{}({}={text})",
                        entry.name,
                        parameter.name
                    );
                }
            }
        }
    }

    #[test]
    fn case_and_hyphens_do_not_matter() {
        for (typed, name) in [
            ("LRU", "lru"),
            ("S3-FIFO", "s3fifo"),
            ("w-TinyLFU", "w-tinylfu"),
            ("wtinylfu", "w-tinylfu"),
        ] {
            assert_eq!(registry().get(typed).map(|entry| entry.name), Some(name));
        }
        assert_eq!(
            "Filter(theta=2) + S3-FIFO"
                .parse::<Spec>()
                .unwrap()
                .to_string(),
            "filter(theta=2)+s3fifo"
        );
        assert!(registry().get("l_ru").is_none() && registry().get("-").is_none());
    }

    #[test]
    fn two_policies_of_one_name() {
        let mut names: Vec<_> = registry()
            .iter()
            .map(|entry| letters(entry.name).collect::<Vec<_>>())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), registry().len());
        for entry in registry() {
            assert!(
                !entry.citation.is_empty()
                    && !entry.summary.is_empty()
                    && !entry.complexity.is_empty()
            );
            assert!(
                entry
                    .name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
        }
        assert!("lru".parse::<Spec>().is_ok());
    }

    const NEW: PolicyEntry = PolicyEntry {
        name: "new",
        citation: "",
        summary: "",
        parameters: &[],
        complexity: "O(1)",
        bytes_an_object: 0,
        needs_path: false,
        build: Build::Eviction(|_, _| Err("not built".to_owned())),
    };

    const NUMBER: Parameter = Parameter {
        name: "x",
        unit: "",
        values: Values::Integer(1, 9),
        default: Preset::Value("3"),
        doc: "",
    };

    #[test]
    fn an_entry_that_no_spec_can_use_is_registered() {
        const UPPER: PolicyEntry = PolicyEntry { name: "New", ..NEW };
        const NAMELESS: PolicyEntry = PolicyEntry { name: "", ..NEW };
        const LRU: PolicyEntry = PolicyEntry { name: "lru", ..NEW };
        const TWICE: PolicyEntry = PolicyEntry {
            parameters: &[NUMBER, NUMBER],
            ..NEW
        };
        const OUT_OF_RANGE: PolicyEntry = PolicyEntry {
            parameters: &[Parameter {
                default: Preset::Value("10"),
                ..NUMBER
            }],
            ..NEW
        };
        let refused = |entry| Registry::builtin().register(entry).expect_err("a fault");
        assert_eq!(refused(&UPPER), RegistryError::Name("New"));
        assert_eq!(refused(&NAMELESS), RegistryError::Name(""));
        assert_eq!(refused(&LRU), RegistryError::Taken("lru"));
        assert_eq!(refused(&TWICE), RegistryError::ParameterTwice("new", "x"));
        assert_eq!(refused(&OUT_OF_RANGE), RegistryError::Preset("new", "x"));
        let once = Registry::builtin().register(&NEW).unwrap();
        assert_eq!(
            once.clone().register(&NEW).expect_err("a fault"),
            RegistryError::Taken("new")
        );
        assert_eq!(once.len(), Registry::builtin().len() + 1);
        assert!(once.get("new").is_some() && registry().get("new").is_none());
    }
}

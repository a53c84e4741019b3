//! The parameters of a policy, declared as data, so that error messages and documentation can list
//! them.

use larder_units::{ByteSize, Ratio};
use std::fmt;

/// One parameter of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name in a spec.
    pub name: &'static str,
    /// The unit of the value; empty for a choice.
    pub unit: &'static str,
    /// The permitted values.
    pub values: Values,
    /// The value if a spec does not give one.
    pub default: Preset,
    /// The effect of the parameter.
    pub doc: &'static str,
}

/// The permitted values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A whole number from the first to the second.
    Integer(u64, u64),
    /// A power of two from the first to the second.
    PowerOfTwo(u64, u64),
    /// A size such as `64KiB`, from the first to the second number of bytes.
    Bytes(u64, u64),
    /// A share from 0 to 1, such as `0.1` or `10%`; its value is the bits of the float.
    Share,
    /// One of these words, which may also be given without the parameter's name, as in
    /// `adaptsize(chance)`.
    Choice(&'static [&'static str]),
}

/// The value of a parameter that a spec does not give.
#[derive(Clone, Copy, Debug)]
pub enum Preset {
    /// This value, in the spec's notation.
    Value(&'static str),
    /// A value that the policy derives, as this text says.
    Derived(&'static str),
    /// No value: the spec must give the parameter.
    Required,
}

impl Preset {
    pub(crate) fn text(&self) -> Option<&'static str> {
        match self {
            Preset::Value(text) => Some(text),
            Preset::Derived(_) | Preset::Required => None,
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preset::Value(text) => text,
            Preset::Derived(rule) => rule,
            Preset::Required => "none, must be given",
        })
    }
}

impl Values {
    /// Returns the value of `text`: the number, the bytes, or the index of the choice. `None` if it
    /// is not a value, or out of range.
    pub(crate) fn read(&self, text: &str) -> Option<u64> {
        match *self {
            Values::Integer(min, max) => text.parse().ok().filter(|n| (min..=max).contains(n)),
            Values::PowerOfTwo(min, max) => text
                .parse()
                .ok()
                .filter(|n: &u64| (min..=max).contains(n) && n.is_power_of_two()),
            Values::Bytes(min, max) => text
                .parse::<ByteSize>()
                .ok()
                .map(ByteSize::bytes)
                .filter(|n| (min..=max).contains(n)),
            Values::Share => text
                .parse::<Ratio>()
                .ok()
                .map(|share| share.value().to_bits()),
            Values::Choice(words) => words
                .iter()
                .position(|word| *word == text)
                .map(|index| index as u64),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Values::Integer(min, max) => write!(f, "a whole number from {min} to {max}"),
            Values::PowerOfTwo(min, max) => write!(f, "a power of two from {min} to {max}"),
            Values::Bytes(min, max) => {
                let size = ByteSize::from_bytes;
                match max {
                    u64::MAX => write!(f, "a size of {} or more, such as \"64KiB\"", size(min)),
                    max => write!(f, "a size from {} to {}", size(min), size(max)),
                }
            }
            Values::Share => f.write_str("a share between 0 and 1, such as \"0.1\" or \"10%\""),
            Values::Choice(words) => write!(f, "one of {}", words.join(", ")),
        }
    }
}

/// The arguments of one stage: the given values, and the presets of the others.
pub struct Arguments<'a> {
    pub(crate) parameters: &'static [Parameter],
    pub(crate) given: &'a [(&'static str, u64)],
}

impl Arguments<'_> {
    /// Returns the value of the parameter `name`, or its preset; `None` if it is neither given nor
    /// preset. The value is a number, a number of bytes, the index of a choice, or the bits of a
    /// share.
    pub fn get(&self, name: &str) -> Option<u64> {
        let given = self
            .given
            .iter()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| *value);
        given.or_else(|| {
            let parameter = self.parameters.iter().find(|p| p.name == name)?;
            parameter.values.read(parameter.default.text()?)
        })
    }

    /// Returns true if the spec gives the parameter `name`.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// Returns the value of the parameter `name`, which is a [`Values::Share`]; 0 if it is neither
    /// given nor preset.
    pub fn share(&self, name: &str) -> f64 {
        self.get(name).map_or(0.0, f64::from_bits)
    }
}

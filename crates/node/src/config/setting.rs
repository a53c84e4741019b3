//! A key's value from outside the file, as text.

use super::keys::Kind;
use std::net::SocketAddr;
use toml::Value;

/// A key's value from outside the file.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The flag or the variable, as errors name it.
    pub(super) origin: String,
    pub(super) path: Vec<&'static str>,
    pub(super) kind: Kind,
    pub(super) value: String,
}

impl Setting {
    /// Returns the value as TOML. Text needs no quotes, and a list of texts no brackets.
    pub(super) fn toml(&self) -> String {
        let value = self.value.trim();
        let text = || Value::String(self.value.clone()).to_string();
        let is_toml = || toml::de::DeValue::parse(value).is_ok();
        let opens = |brackets: &[char]| value.starts_with(brackets);
        match self.kind {
            _ if opens(&['"', '\'']) && is_toml() => value.to_owned(),
            Kind::Text => text(),
            // The brackets of an IPv6 address are none of TOML.
            _ if let Some(addresses) = addresses(value) => addresses,
            Kind::List if value.is_empty() => "[]".to_owned(),
            Kind::List if !opens(&['[']) => {
                let items = value
                    .split(',')
                    .map(|item| Value::String(item.trim().to_owned()));
                Value::Array(items.collect()).to_string()
            }
            _ if opens(&['[', '{']) || is_toml() => value.to_owned(),
            _ => text(),
        }
    }
}

/// Returns addresses that are separated by commas, such as `[::]:80`, as TOML: one as a text,
/// several as an array. `None` if it is something else.
fn addresses(value: &str) -> Option<String> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let are_addresses = parts.iter().all(|part| part.parse::<SocketAddr>().is_ok());
    let text = |part: &&str| Value::String((*part).to_owned());
    match parts.as_slice() {
        _ if !are_addresses => None,
        [one] => Some(text(one).to_string()),
        several => Some(Value::Array(several.iter().map(text).collect()).to_string()),
    }
}

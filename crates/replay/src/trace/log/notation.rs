//! The notations in which servers and log analysers describe a log's lines: nginx's `log_format`,
//! Apache's `LogFormat`, and goaccess's `log-format`.

use super::names::{Role, normal, roles_of};
use super::pattern::Pattern;
use super::presets::{Form, PRESETS, Preset};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The format of a log's lines: one of the known formats, or a pattern in the notation of nginx,
/// Apache or goaccess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// The name of a known format, else the pattern.
    pub(super) name: String,
    pub(super) shape: Shape,
}

/// How the lines of a log tell their fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// By their places in a text.
    Text(Arc<Pattern>),
    /// By the names of a JSON object's members.
    Json,
    /// By the names in a first line, or in a line `#Fields:`.
    Header,
}

impl LogFormat {
    /// Returns the names of the known formats, each with one line for people.
    pub fn known() -> Vec<(&'static str, &'static str)> {
        PRESETS
            .iter()
            .map(|preset| (preset.name, preset.summary))
            .collect()
    }

    /// Returns a known format.
    pub(super) fn of(preset: &Preset) -> LogFormat {
        let shape = match preset.form {
            // A description has variables, so it is a pattern.
            Form::Text(text) => {
                Shape::Text(Arc::new(pattern_of(text).unwrap_or_else(Pattern::new)))
            }
            Form::Json => Shape::Json,
            Form::Header => Shape::Header,
        };
        LogFormat {
            name: preset.name.to_owned(),
            shape,
        }
    }

    /// Returns the name of the known format, or the pattern.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A text that is no [`LogFormat`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogFormatError {
    /// This text has no variables, and no known format is called so.
    Unknown(String),
    /// This pattern has no field with this meaning.
    Without {
        /// The pattern.
        pattern: String,
        /// What is missing.
        field: &'static str,
    },
}

impl fmt::Display for LogFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogFormatError::Unknown(text) => {
                let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                write!(
                    f,
                    "`{}` is no log format: a pattern such as '$remote_addr - [$time_local] \"$request\" $status \
                     $bytes_sent' or '%h %t \"%r\" %>s %b', or one of {}",
                    text.escape_debug(),
                    names.join(", ")
                )
            }
            LogFormatError::Without { pattern, field } => {
                write!(
                    f,
                    "`{}` has no field for the {field}",
                    pattern.escape_debug()
                )
            }
        }
    }
}

impl std::error::Error for LogFormatError {}

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<LogFormat, LogFormatError> {
        let known = PRESETS
            .iter()
            .find(|preset| preset.name.eq_ignore_ascii_case(text));
        if let Some(preset) = known {
            return Ok(LogFormat::of(preset));
        }
        let pattern = pattern_of(text).ok_or_else(|| LogFormatError::Unknown(text.to_owned()))?;
        let without = |field| LogFormatError::Without {
            pattern: text.to_owned(),
            field,
        };
        let has = |roles: &[Role]| roles.iter().any(|role| pattern.has(*role));
        if !has(&[Role::Request, Role::Target, Role::Path]) {
            return Err(without("URL"));
        }
        if !has(&[Role::Time, Role::Date]) {
            return Err(without("time"));
        }
        if !has(&[Role::Status]) {
            return Err(without("status"));
        }
        Ok(LogFormat {
            name: text.to_owned(),
            shape: Shape::Text(Arc::new(pattern)),
        })
    }
}

/// Returns the pattern that a text in one of the notations describes.
fn pattern_of(text: &str) -> Option<Pattern> {
    let text = without_quotes(text);
    if text.contains('$') {
        return Some(nginx(&text));
    }
    let is_directive = |part: &str| {
        part.starts_with(|letter: char| {
            letter.is_ascii_alphabetic() || matches!(letter, '>' | '<' | '{' | '^' | '~' | '!')
        })
    };
    if !text.split('%').skip(1).any(is_directive) {
        return None;
    }
    // goaccess splits date and time, and has fields without a meaning.
    let is_goaccess = ["%^", "%d", "%x", "%~"]
        .iter()
        .any(|own| text.contains(own));
    Some(if is_goaccess {
        goaccess(&text)
    } else {
        apache(&text)
    })
}

/// Returns a pattern as it stands in a configuration, without its quotes: `'$a ' '$b'`.
fn without_quotes(text: &str) -> String {
    let text = text.trim();
    let inner = |quote: char| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (inner.len() + 1 < text.len()).then(|| inner.to_owned())
    };
    if let Some(parts) = inner('\'') {
        let mut joined = String::new();
        for (place, part) in parts.split('\'').enumerate() {
            if place % 2 == 0 {
                joined += part;
            }
        }
        return joined;
    }
    if let Some(inner) = inner('"').filter(|inner| inner.contains("\\\"")) {
        return inner.replace("\\\"", "\"");
    }
    text.replace("\\\"", "\"")
}

/// Reads nginx's notation: `$name` or `${name}` between other texts.
fn nginx(text: &str) -> Pattern {
    let mut pattern = Pattern::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        pattern.add_text(&rest.as_bytes()[..dollar]);
        rest = &rest[dollar + 1..];
        let is_braced = rest.starts_with('{');
        let name = rest.trim_start_matches('{');
        let end = name
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(name.len());
        let (name, after) = name.split_at(end);
        rest = if is_braced {
            after.strip_prefix('}').unwrap_or(after)
        } else {
            after
        };
        pattern.add_field(role_of_variable(name), name);
    }
    pattern.add_text(rest.as_bytes());
    pattern
}

/// Returns what a variable of nginx means. `$http_NAME` is a field of the request.
fn role_of_variable(name: &str) -> Option<Role> {
    match name {
        "head" => return Some(Role::Head),
        "mid" => return Some(Role::Mid),
        "tail" => return Some(Role::Tail),
        _ => {}
    }
    let is_upstream = name.starts_with("upstream_") && name != "upstream_cache_status";
    if is_upstream || name == "request_time" || name == "request_length" {
        return None;
    }
    roles_of(&normal(name))
        .into_iter()
        .min_by_key(|(_, rank)| *rank)
        .map(|(role, _)| role)
}

/// Reads Apache's notation (mod_log_config), which Varnish and Fastly use too.
fn apache(text: &str) -> Pattern {
    let mut pattern = Pattern::new();
    let mut rest = text;
    while let Some(percent) = rest.find('%') {
        pattern.add_text(&rest.as_bytes()[..percent]);
        rest = &rest[percent + 1..];
        // Conditions and the choice between first and last request.
        rest = rest.trim_start_matches(|letter: char| {
            letter.is_ascii_digit() || matches!(letter, '!' | ',' | '<' | '>')
        });
        let mut argument = "";
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').unwrap_or(inner.len());
            argument = &inner[..end];
            rest = inner.get(end + 1..).unwrap_or_default();
        }
        let mut letters = rest.chars();
        let directive = letters.next();
        let shown = if argument.is_empty() {
            format!("%{}", directive.unwrap_or('%'))
        } else {
            format!("%{{{argument}}}{}", directive.unwrap_or('%'))
        };
        rest = letters.as_str();
        match directive {
            Some('%') | None => pattern.add_text(b"%"),
            Some('t') if argument.is_empty() => {
                pattern.add_text(b"[");
                pattern.add_field(Some(Role::Time), &shown);
                pattern.add_text(b"]");
            }
            Some('u') => pattern.add_field(None, "remote_user"),
            Some(letter) => pattern.add_field(role_of_directive(letter, argument), &shown),
        }
    }
    pattern.add_text(rest.as_bytes());
    pattern
}

fn role_of_directive(letter: char, argument: &str) -> Option<Role> {
    let argument = normal(argument);
    Some(match letter {
        't' => Role::Time,
        'r' => Role::Request,
        'm' => Role::Method,
        'U' => Role::Path,
        'q' => Role::Query,
        's' => Role::Status,
        'b' | 'B' => Role::Body,
        'O' => Role::Sent,
        'v' | 'V' => Role::ServerName,
        'p' => Role::Port,
        'i' if argument == "host" => Role::Host,
        'i' if argument == "x_forwarded_proto" => Role::Scheme,
        'o' if argument == "cache_control" => Role::CacheControl,
        'o' if argument == "content_range" => Role::ContentRange,
        'o' if matches!(&*argument, "x_cache" | "x_cache_status") => Role::CacheStatus,
        'x' if argument.ends_with(":hitmiss") || argument.ends_with(":handling") => {
            Role::CacheStatus
        }
        'e' if argument == "cache_status" => Role::CacheStatus,
        _ => return None,
    })
}

/// Reads goaccess's notation, with its default forms of date and time.
fn goaccess(text: &str) -> Pattern {
    let mut pattern = Pattern::new();
    let mut rest = text;
    while let Some(percent) = rest.find('%') {
        pattern.add_text(&rest.as_bytes()[..percent]);
        let mut letters = rest[percent + 1..].chars();
        let letter = letters.next().unwrap_or('%');
        rest = letters.as_str();
        let role = match letter {
            '~' => {
                pattern.add_text(b" ");
                continue;
            }
            'x' => Some(Role::Time),
            'd' => Some(Role::Date),
            't' => Some(Role::Clock),
            'v' => Some(Role::Host),
            'm' => Some(Role::Method),
            'U' => Some(Role::Target),
            'q' => Some(Role::Query),
            'r' => Some(Role::Request),
            's' => Some(Role::Status),
            'b' => Some(Role::Body),
            'C' => Some(Role::CacheStatus),
            _ => None,
        };
        pattern.add_field(role, &format!("%{letter}"));
    }
    pattern.add_text(rest.as_bytes());
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a notation is read as another one, or its fields have other meanings.
    #[test]
    fn a_pattern_means_another_thing() {
        let roles = |text: &str| -> Vec<Role> {
            let format: LogFormat = text.parse().unwrap();
            let Shape::Text(pattern) = format.shape else {
                panic!("no text: {text}")
            };
            pattern.names().iter().map(|(role, _)| *role).collect()
        };
        use Role::{Body, CacheStatus, Clock, Date, Host, Request, Sent, ServerName, Status, Time};
        assert_eq!(
            roles(
                "$remote_addr - $remote_user [$time_local] \"$request\" $status $bytes_sent $upstream_cache_status"
            ),
            [Time, Request, Status, Sent, CacheStatus]
        );
        assert_eq!(
            roles("'$host [$time_iso8601] ' '\"$request\" ${status}'"),
            [Host, Time, Request, Status]
        );
        assert_eq!(
            roles("%v:%p %h %l %u %t \\\"%r\\\" %>s %O"),
            [ServerName, Role::Port, Time, Request, Status, Sent]
        );
        assert_eq!(
            roles("%h %^[%d:%t %^] \"%r\" %s %b \"%R\" \"%u\""),
            [Date, Clock, Request, Status, Body]
        );
        for (text, words) in [
            ("nonsense", "is no log format"),
            ("$status $time_local", "no field for the URL"),
            ("%r %s", "no field for the time"),
            ("100%", "is no log format"),
        ] {
            let error = text.parse::<LogFormat>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

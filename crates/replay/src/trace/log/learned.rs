//! The host and the cache's status in the fields that no name explains: the virtual host that
//! Apache writes first, and what sites add to the combined format. The first lines show where they
//! are: the same field of all lines has the form of a host.

use super::names::{Role, normal, roles_of};
use super::record::Record;

/// Lines whose fields are compared.
const MAX_LINES: usize = 200;

/// The fields of one text that are compared. Formats have about ten.
const MAX_FIELDS: usize = 40;

/// Where some fields are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    places: Vec<Place>,
}

/// A field of an unnamed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    role: Role,
    text: Role,
    /// Counted from 0.
    field: usize,
}

impl Learned {
    /// Returns the places that the lines show, which have these unnamed texts.
    pub fn of(records: &[Record<'_>], has_host: bool) -> Learned {
        let mut learned = Learned::default();
        for text in [Role::Head, Role::Mid, Role::Tail] {
            let lines: Vec<Vec<Token<'_>>> = records
                .iter()
                .take(MAX_LINES)
                .map(|record| Tokens(record.text(text)).take(MAX_FIELDS).collect())
                .collect();
            let fields = lines.iter().map(Vec::len).min().unwrap_or(0);
            for field in 0..fields {
                let values: Vec<Token<'_>> = lines.iter().map(|line| line[field]).collect();
                let role = role_of(&values, text, field, fields);
                let is_new = |role: &Role| !learned.places.iter().any(|place| place.role == *role);
                let is_wanted = |role: &Role| *role != Role::Host || !has_host;
                if let Some(role) = role.filter(is_new).filter(is_wanted) {
                    learned.places.push(Place { role, text, field });
                }
            }
        }
        learned
    }

    /// Adds the fields to the record of a line.
    pub fn add(&self, record: &mut Record<'_>) {
        for place in &self.places {
            if let Some(text) = record.borrowed(place.text)
                && let Some(token) = Tokens(text).nth(place.field)
            {
                record.set(place.role, token.value);
            }
        }
    }

    /// Describes the places for people.
    pub fn shown(&self) -> Vec<String> {
        let shown = self.places.iter().map(|place| {
            let role = match place.role {
                Role::Host => "host",
                Role::Scheme => "scheme",
                _ => "cache status",
            };
            let text = match place.text {
                Role::Head => "before the time",
                Role::Mid => "between time and request",
                _ => "after the bytes",
            };
            format!("{role} from field {} {text} (by its form)", place.field + 1)
        });
        shown.collect()
    }
}

/// Returns what a field means whose values in several lines are these; `field` is its place in
/// `text`, which has at least `fields` of them.
fn role_of(values: &[Token<'_>], text: Role, field: usize, fields: usize) -> Option<Role> {
    let named = values.first().and_then(|first| {
        let key = first.key?;
        let is_same = values.iter().all(|value| value.key == Some(key));
        let roles = roles_of(&normal(&String::from_utf8_lossy(key)));
        let (role, _) = roles.into_iter().min_by_key(|(_, rank)| *rank)?;
        is_same.then_some(role)
    });
    if let Some(role) = named {
        let role = if role == Role::ServerName {
            Role::Host
        } else {
            role
        };
        return matches!(role, Role::Host | Role::CacheStatus | Role::Scheme).then_some(role);
    }
    let all = |is_like: fn(&[u8]) -> bool| {
        let is_missing = |value: &Token<'_>| matches!(value.value, b"-" | b"");
        values
            .iter()
            .all(|value| is_missing(value) || is_like(value.value))
            && values.iter().any(|value| !is_missing(value))
    };
    if all(is_cache_status) {
        return Some(Role::CacheStatus);
    }
    // The first field before the time is the client, unless Apache's virtual host comes first.
    let is_client = text == Role::Head && field == 0 && fields < 4;
    let is_named_port = |value: &[u8]| is_host(value) || text == Role::Head && has_port(value);
    (!is_client
        && all(if field == 0 && text == Role::Head {
            is_vhost
        } else {
            is_host
        }))
    .then_some(Role::Host)
    .filter(|_| values.iter().any(|value| is_named_port(value.value)))
}

fn is_cache_status(text: &[u8]) -> bool {
    const STATUSES: [&[u8]; 9] = [
        b"HIT",
        b"MISS",
        b"BYPASS",
        b"EXPIRED",
        b"STALE",
        b"UPDATING",
        b"REVALIDATED",
        b"PASS",
        b"SCARCE",
    ];
    STATUSES
        .iter()
        .any(|status| status.eq_ignore_ascii_case(text))
}

/// Returns true if a text has the form of a host's name with several labels, perhaps with a port.
fn is_host(text: &[u8]) -> bool {
    // Names of files that are no domains.
    const FILES: [&[u8]; 8] = [
        b"html", b"htm", b"php", b"js", b"css", b"png", b"jpg", b"conf",
    ];
    let name = match memchr::memrchr(b':', text) {
        Some(colon) if text[colon + 1..].iter().all(u8::is_ascii_digit) => &text[..colon],
        _ => text,
    };
    let Some(dot) = memchr::memrchr(b'.', name) else {
        return name == b"localhost";
    };
    let top = &name[dot + 1..];
    top.len() >= 2
        && dot > 0
        && top.iter().all(u8::is_ascii_alphabetic)
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
        && !FILES.iter().any(|file| file.eq_ignore_ascii_case(top))
}

/// The same for the first field of a line, which may be any name with a port, or an address.
fn is_vhost(text: &[u8]) -> bool {
    is_host(text) || has_port(text)
}

fn has_port(text: &[u8]) -> bool {
    memchr::memrchr(b':', text).is_some_and(|colon| {
        let port = &text[colon + 1..];
        colon > 0 && !port.is_empty() && port.iter().all(u8::is_ascii_digit)
    })
}

/// A field of an unnamed text.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    /// The name before a `=` or `:`.
    key: Option<&'a [u8]>,
    value: &'a [u8],
}

/// The fields of an unnamed text: words, quoted texts, and what HAProxy captures (`{a|b}`).
struct Tokens<'a>(&'a [u8]);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let is_between =
            |byte: &u8| matches!(byte, b' ' | b'\t' | b'{' | b'}' | b'|' | b',' | b';');
        let start = self.0.iter().position(|byte| !is_between(byte))?;
        let text = &self.0[start..];
        if let [b'"', inner @ ..] = text {
            let end = memchr::memchr(b'"', inner).unwrap_or(inner.len());
            self.0 = inner.get(end + 1..).unwrap_or_default();
            return Some(Token {
                key: None,
                value: &inner[..end],
            });
        }
        let end = text.iter().position(is_between).unwrap_or(text.len());
        let word = &text[..end];
        if let Some(equals) = memchr::memchr2(b'=', b'"', word).filter(|at| word[*at] == b'=') {
            let (key, value) = (&word[..equals], &text[equals + 1..]);
            if let [b'"', inner @ ..] = value {
                let end = memchr::memchr(b'"', inner).unwrap_or(inner.len());
                self.0 = inner.get(end + 1..).unwrap_or_default();
                return Some(Token {
                    key: Some(key),
                    value: &inner[..end],
                });
            }
            self.0 = &text[end..];
            return Some(Token {
                key: Some(key),
                value: &word[equals + 1..],
            });
        }
        self.0 = &text[end..];
        Some(Token {
            key: None,
            value: word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(text: Role, lines: &[&'static str]) -> Vec<(Role, usize)> {
        let records: Vec<Record<'_>> = lines
            .iter()
            .map(|line| {
                let mut record = Record::default();
                record.set(text, line.as_bytes());
                record
            })
            .collect();
        let learned = Learned::of(&records, false);
        learned
            .places
            .iter()
            .map(|place| (place.role, place.field))
            .collect()
    }

    /// Failure: the client, a referrer or a program is taken for the host, or the host is missed.
    #[test]
    fn another_field_is_the_host() {
        use Role::{CacheStatus, Head, Host, Tail};
        for (text, lines, expected) in [
            (
                Head,
                &["a.example:443 192.0.2.1 - -", "b.example:80 192.0.2.2 - -"][..],
                &[(Host, 0)][..],
            ),
            (Head, &["default:443 192.0.2.1 - -"], &[(Host, 0)]),
            (Head, &["client.example - -"], &[]),
            (Head, &["192.0.2.1 a.example -"], &[(Host, 1)]),
            (Head, &["192.0.2.1 - John Doe"], &[]),
            (Head, &["192.0.2.1 - -"], &[]),
            (Tail, &[" \"-\" \"Mozilla/5.0 (X11)\""], &[]),
            (
                Tail,
                &[
                    " \"-\" \"Mozilla\" \"a.example\"",
                    " \"-\" \"curl\" \"b.example\"",
                ],
                &[(Host, 2)],
            ),
            (
                Tail,
                &[" \"-\" \"curl\" HIT 0.001", " \"-\" \"curl\" - 0.1"],
                &[(CacheStatus, 2)],
            ),
            (
                Tail,
                &[" \"-\" \"curl\" rt=0.1 host=\"x\" cs=HIT"],
                &[(Host, 3), (CacheStatus, 4)],
            ),
            (Tail, &[" \"http://a.example/\" \"curl\""], &[]),
        ] {
            assert_eq!(learned(text, lines), expected, "{lines:?}");
        }
    }
}

//! `[[http.rules]]` as the file has it.

use super::pattern::{Glob, StatusPattern};
use super::rate_limit::RateLimit;
use super::template::Template;
use crate::message::host_pattern::HostPattern;
use crate::message::network::Network;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use larder_units::ByteSize;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// One rule: conditions, which all have to hold, and what it sets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// `http` or `https`: how the client came.
    #[serde(deserialize_with = "scheme")]
    pub scheme: Option<Scheme>,
    /// One of these hosts.
    #[serde(deserialize_with = "hosts")]
    pub host: Vec<HostPattern>,
    /// One of these patterns matches the path.
    #[serde(deserialize_with = "paths")]
    pub path: Vec<Glob>,
    /// One of these methods. GET stands for HEAD too.
    #[serde(deserialize_with = "method")]
    pub method: Vec<Method>,
    /// The client's address is in one of these networks.
    #[serde(deserialize_with = "many")]
    pub client: Vec<Network>,
    /// The request has a cookie whose name matches one of these.
    #[serde(deserialize_with = "many")]
    pub cookie: Vec<Glob>,
    /// The response has one of these statuses.
    #[serde(deserialize_with = "many")]
    pub status: Vec<StatusPattern>,
    /// The response's `Content-Type` matches one of these.
    #[serde(deserialize_with = "content_types")]
    pub content_type: Vec<Glob>,

    /// Only clients in these networks get an answer.
    #[serde(deserialize_with = "many")]
    pub allow: Vec<Network>,
    /// Clients in these networks get none.
    #[serde(deserialize_with = "many")]
    pub deny: Vec<Network>,
    /// The number of requests that are answered.
    pub rate_limit: Option<RateLimit>,
    /// Bytes of the body of a request, in the place of `[http.limits] client_body_size`; 0: no
    /// limit.
    #[serde(deserialize_with = "some")]
    pub client_body_size: Option<ByteSize>,
    /// A file whose content replaces the body of a response.
    pub error_page: Option<PathBuf>,
    /// True: the cache neither answers the request nor stores the response.
    pub pass: Option<bool>,
    /// False: the request neither waits for another one's response, nor others for its response.
    pub collapse: Option<bool>,
    /// False: the response gets no content coding.
    pub compress: Option<bool>,
    /// The response is fresh for this time from its receipt, whatever it says.
    #[serde(deserialize_with = "seconds")]
    pub ttl: Option<u64>,
    /// The lifetime of a response that states none.
    #[serde(deserialize_with = "seconds")]
    pub default_ttl: Option<u64>,
    /// The time for which a stale response is served while it is validated.
    #[serde(deserialize_with = "seconds")]
    pub stale_while_revalidate: Option<u64>,
    /// The time for which a stale response is served while the origin fails.
    #[serde(deserialize_with = "seconds")]
    pub stale_if_error: Option<u64>,
    /// What does not prevent storing a response.
    pub ignore: Vec<Ignored>,
    /// Parameters of the query that are removed.
    #[serde(deserialize_with = "many")]
    pub query_drop: Vec<Glob>,
    /// The only parameters of the query that stay.
    #[serde(deserialize_with = "some_list")]
    pub query_keep: Option<Vec<Glob>>,
    /// True: the parameters are sorted by name.
    pub query_sort: Option<bool>,
    /// The only cookies that stay.
    #[serde(deserialize_with = "some_list")]
    pub cookie_keep: Option<Vec<Glob>>,
    /// Changes of the request's fields.
    pub request_headers: HeaderChanges,
    /// Changes of the response's fields.
    pub response_headers: HeaderChanges,
    /// The target of the request to the origin.
    #[serde(deserialize_with = "target")]
    pub rewrite: Option<Template>,
    /// `Host` of the request to the origin.
    #[serde(deserialize_with = "some")]
    pub rewrite_host: Option<Template>,
    /// The target of a redirect.
    #[serde(deserialize_with = "some")]
    pub redirect: Option<Template>,
    /// The status of the redirect.
    #[serde(deserialize_with = "redirect_status")]
    pub redirect_status: Option<StatusCode>,
}

/// The scheme of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

/// A part of a response that forbids to store it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Ignored {
    /// `Cache-Control: no-store`.
    NoStore,
    /// `Cache-Control: private`.
    Private,
    /// `Set-Cookie`: the field is removed.
    SetCookie,
}

/// Changes of header fields: first the fields of `remove` go, then those of `set` replace others of
/// the same name, then those of `append` come.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeaderChanges {
    /// These fields are removed.
    #[serde(deserialize_with = "field_names")]
    pub remove: Vec<HeaderName>,
    /// These fields get these values.
    #[serde(deserialize_with = "fields")]
    pub set: Vec<(HeaderName, Template)>,
    /// These fields are added.
    #[serde(deserialize_with = "fields")]
    pub append: Vec<(HeaderName, Template)>,
}

impl HeaderChanges {
    /// Returns true if it changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.append.is_empty()
    }

    /// Returns all templates.
    pub(super) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.set
            .iter()
            .chain(&self.append)
            .map(|(_, template)| template)
    }
}

/// One text or a list of texts; numbers count as texts.
struct Texts(Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct TextsVisitor;

        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Texts, E> {
                Ok(Texts(vec![number.to_string()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(Texts(element)) = elements.next_element()? {
                    texts.extend(element);
                }
                Ok(Texts(texts))
            }
        }

        deserializer.deserialize_any(TextsVisitor)
    }
}

fn read<T, E: Error>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, E> {
    parse(text).map_err(|problem| E::custom(format!("{text:?}: {problem}")))
}

fn texts<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, D::Error> {
    let Texts(texts) = Texts::deserialize(deserializer)?;
    if texts.is_empty() {
        return Err(D::Error::custom(
            "expected at least one; leave the key out for no condition",
        ));
    }
    texts.iter().map(|text| read(text, &parse)).collect()
}

fn many<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    texts(deserializer, |text| {
        text.parse().map_err(|problem: T::Err| problem.to_string())
    })
}

/// A list that may be empty.
fn some_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Glob>>, D::Error> {
    let Texts(texts) = Texts::deserialize(deserializer)?;
    texts
        .iter()
        .map(|text| read(text, str::parse))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    read(&String::deserialize(deserializer)?, |text| {
        let span = larder_units::parse_duration(text).map_err(|error| error.to_string())?;
        match span.subsec_nanos() {
            0 => Ok(Some(span.as_secs().min(1 << 31))),
            _ => Err("expected whole seconds, such as \"10s\", \"5m\" or \"1d\"".to_owned()),
        }
    })
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HostPattern>, D::Error> {
    texts(deserializer, |text| {
        let host = larder_http::keyed_authority("http", text);
        let sound = !text.contains(['/', '@']) && !text.contains(char::is_whitespace);
        let expected = "expected a host as clients name it, such as \"example.com\", or all below a domain, \"*.example.com\"";
        HostPattern::parse(&host)
            .filter(|_| sound)
            .ok_or_else(|| expected.to_owned())
    })
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Glob>, D::Error> {
    texts(deserializer, |text| {
        if text.starts_with(['/', '*']) {
            Glob::of_path(text)
        } else {
            Err(
                "expected a path that starts with / or *, such as \"/img/*\" or \"*.jpg\""
                    .to_owned(),
            )
        }
    })
}

fn content_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Glob>, D::Error> {
    texts(deserializer, |text| text.parse().map(Glob::lower))
}

fn scheme<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Scheme>, D::Error> {
    read(&String::deserialize(deserializer)?, |text| match text {
        "http" => Ok(Some(Scheme::Http)),
        "https" => Ok(Some(Scheme::Https)),
        _ => Err("expected \"http\" or \"https\"".to_owned()),
    })
}

fn some<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    read(&String::deserialize(deserializer)?, |text| match text {
        "" => Err("expected a text".to_owned()),
        _ => text
            .parse()
            .map(Some)
            .map_err(|problem: T::Err| problem.to_string()),
    })
}

fn target<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Template>, D::Error> {
    read(&String::deserialize(deserializer)?, |text| {
        let is_path = text.starts_with('/')
            || ["$uri", "$request_uri"]
                .iter()
                .any(|start| text.starts_with(start));
        let template = text.parse::<Template>()?;
        let is_sound = template
            .to_string()
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if is_path && is_sound {
            Ok(Some(template))
        } else {
            Err("expected a path that starts with /, such as \"/new/$1$is_args$args\"".to_owned())
        }
    })
}

fn redirect_status<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<StatusCode>, D::Error> {
    let number = u16::deserialize(deserializer)?;
    let status = StatusCode::from_u16(number)
        .ok()
        .filter(|_| matches!(number, 301 | 302 | 303 | 307 | 308));
    status
        .map(Some)
        .ok_or_else(|| D::Error::custom(format!("{number}: expected 301, 302, 303, 307 or 308")))
}

/// Fields that frame a message or that the proxy writes: a rule that changes them would break the
/// message, or would have no effect.
const RESERVED: [&str; 21] = [
    "cdn-loop",
    "connection",
    "content-length",
    "content-range",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
];

fn method<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Method>, D::Error> {
    texts(deserializer, |text| {
        if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
            Err(format!(
                "methods have capital letters: write {:?}",
                text.to_ascii_uppercase()
            ))
        } else {
            text.parse().map_err(|_| "it is no method".to_owned())
        }
    })
}

fn field_name(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName = text
        .parse()
        .map_err(|_| "it is no name of a field".to_owned())?;
    match name.as_str() {
        "host" => Err("rewrite_host sets it".to_owned()),
        name if RESERVED.contains(&name) => Err("Larder writes this field itself".to_owned()),
        _ => Ok(name),
    }
}

fn field_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HeaderName>, D::Error> {
    texts(deserializer, field_name)
}

fn fields<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(HeaderName, Template)>, D::Error> {
    let table = BTreeMap::<String, String>::deserialize(deserializer)?;
    let field = |(name, value): (String, String)| {
        let template: Template = read(&value, str::parse)?;
        if HeaderValue::try_from(value.as_str()).is_err() {
            return Err(D::Error::custom(format!(
                "{value:?}: a field cannot have this value"
            )));
        }
        Ok((read(&name, field_name)?, template))
    };
    table.into_iter().map(field).collect()
}

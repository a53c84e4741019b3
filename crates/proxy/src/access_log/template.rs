//! The format of a line: `combined`, `json`, or a text with nginx's variables.

use super::escape::{Escape, append};
use super::record::{Attempt, Record};
use super::time_text::TimeText;
use crate::base::limits;
use http::HeaderName;
use larder_host::Peer;
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

/// A parsed format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
    escape: Escape,
    request_fields: Vec<HeaderName>,
    response_fields: Vec<HeaderName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    Variable(Variable),
    /// A number of a JSON object: `null` if it is missing.
    Number(Variable),
}

/// A fact of a [`Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// A name of [`NAMES`], by its number.
    Named(Name),
    /// `$http_NAME`: a field of the request, by its number.
    RequestField(usize),
    /// `$sent_http_NAME`: a field of the response, by its number.
    ResponseField(usize),
}

macro_rules! names {
    ($($variant:ident $name:literal $summary:literal,)*) => {
        /// The variables with fixed names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Name {
            $(#[doc = $summary] $variant,)*
        }

        /// The variables with fixed names, their names, and their meanings.
        pub const NAMES: &[(Name, &str, &str)] = &[$((Name::$variant, $name, $summary),)*];
    };
}

names! {
    RemoteAddr "remote_addr" "The client's address.",
    RemotePort "remote_port" "The client's port.",
    RemoteUser "remote_user" "Always missing: the proxy authenticates nobody.",
    TimeLocal "time_local" "The end of the exchange, in UTC, as `24/Nov/2026:18:44:26 +0000`.",
    TimeIso "time_iso8601" "The same as `2026-11-24T18:44:26.123Z`.",
    Msec "msec" "The same in seconds since 1970, with milliseconds.",
    Request "request" "The request line.",
    RequestMethod "request_method" "The method.",
    RequestUri "request_uri" "Path and query.",
    Uri "uri" "The path.",
    Args "args" "The query.",
    Host "host" "The host that the client named.",
    Scheme "scheme" "`http` or `https`.",
    ServerProtocol "server_protocol" "Such as `HTTP/1.1`.",
    Status "status" "The status; 499 if the client left before it.",
    BodyBytesSent "body_bytes_sent" "The bytes of the body that were sent.",
    CacheStatus "cache_status" "`hit`, `stale`, `revalidated`, `miss`, `expired`, `bypass` or `none`.",
    UpstreamCacheStatus "upstream_cache_status" "The same in nginx's words, such as `HIT`.",
    TimeToFirstByte "time_to_first_byte" "Seconds to the head of the response.",
    RequestTime "request_time" "Seconds to the end of the response.",
    RequestCompletion "request_completion" "`OK` if the response was sent whole.",
    UpstreamAddr "upstream_addr" "The servers that were asked, in order.",
    UpstreamStatus "upstream_status" "Their statuses.",
    UpstreamHeaderTime "upstream_header_time" "Their seconds to the head of the response.",
    UpstreamResponseTime "upstream_response_time" "Their seconds to the end of the response.",
    RequestId "request_id" "The request's number for logs: see `request_id` of `[http]`.",
    Refusal "refusal" "The reason why the request was refused as malformed.",
    SslProtocol "ssl_protocol" "The version of TLS, such as `TLSv1.3`.",
}

/// Variables whose values need a record of requests to servers.
const OF_SERVERS: [Name; 4] = [
    Name::UpstreamAddr,
    Name::UpstreamStatus,
    Name::UpstreamHeaderTime,
    Name::UpstreamResponseTime,
];

const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
                        \"$http_referer\" \"$http_user_agent\"";

/// The members of `json`; with true, numbers.
const JSON: [(&str, bool); 20] = [
    ("time_iso8601", false),
    ("remote_addr", false),
    ("request_method", false),
    ("scheme", false),
    ("host", false),
    ("request_uri", false),
    ("server_protocol", false),
    ("status", true),
    ("body_bytes_sent", true),
    ("cache_status", false),
    ("time_to_first_byte", true),
    ("request_time", true),
    ("request_completion", false),
    ("upstream_addr", false),
    ("upstream_response_time", false),
    ("ssl_protocol", false),
    ("request_id", false),
    ("http_referer", false),
    ("http_user_agent", false),
    ("refusal", false),
];

impl Template {
    /// Reads a format: `combined`, `json`, or a text with variables, whose values are escaped by
    /// `escape`.
    ///
    /// # Errors
    /// [`TemplateError`] if a variable is unknown or its name does not end, or the text is empty,
    /// too long, or has line breaks.
    pub fn parse(format: &str, escape: Escape) -> Result<Template, TemplateError> {
        match format {
            "combined" => Template::of_text(COMBINED, escape),
            "json" => Template::json(),
            text if !text.contains('$') => Err(TemplateError::Nothing(text.to_owned())),
            text => Template::of_text(text, escape),
        }
    }

    fn empty(escape: Escape) -> Template {
        Template {
            parts: Vec::new(),
            escape,
            request_fields: Vec::new(),
            response_fields: Vec::new(),
        }
    }

    fn json() -> Result<Template, TemplateError> {
        let mut template = Template::empty(Escape::Json);
        for (at, (name, is_number)) in JSON.into_iter().enumerate() {
            let variable = template.variable(name)?;
            let start = if at == 0 { "{" } else { "," };
            let quote = if is_number { "" } else { "\"" };
            template.push_text(&format!("{start}\"{name}\":{quote}"));
            template.parts.push(if is_number {
                Part::Number(variable)
            } else {
                Part::Variable(variable)
            });
            template.push_text(quote);
        }
        template.push_text("}");
        Ok(template)
    }

    fn of_text(text: &str, escape: Escape) -> Result<Template, TemplateError> {
        if text.len() > limits::LOG_FORMAT_BYTES {
            return Err(TemplateError::TooLong);
        }
        if text.contains(char::is_control) {
            return Err(TemplateError::Control);
        }
        let mut template = Template::empty(escape);
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            template.push_text(before);
            // `$$` is a dollar sign.
            if let Some(after) = after.strip_prefix('$') {
                template.push_text("$");
                rest = after;
                continue;
            }
            let (name, after) = match after.strip_prefix('{') {
                Some(braced) => braced.split_once('}').ok_or(TemplateError::Unclosed)?,
                None => {
                    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                    after.split_at(after.find(|c| !is_of_name(c)).unwrap_or(after.len()))
                }
            };
            let variable = template.variable(name)?;
            template.parts.push(Part::Variable(variable));
            rest = after;
        }
        template.push_text(rest);
        Ok(template)
    }

    fn push_text(&mut self, text: &str) {
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => *last = [last, text.as_bytes()].concat().into(),
            _ => self.parts.push(Part::Text(text.as_bytes().into())),
        }
    }

    /// Returns a variable by its name.
    fn variable(&mut self, name: &str) -> Result<Variable, TemplateError> {
        if let Some((variable, ..)) = NAMES.iter().find(|(_, known, _)| *known == name) {
            return Ok(Variable::Named(*variable));
        }
        let field = |name: &str| HeaderName::try_from(name.replace('_', "-")).ok();
        let number = |fields: &mut Vec<HeaderName>, name: HeaderName| {
            let known = fields.iter().position(|known| *known == name);
            known.unwrap_or_else(|| {
                fields.push(name);
                fields.len() - 1
            })
        };
        if let Some(name) = name.strip_prefix("sent_http_").and_then(field) {
            return Ok(Variable::ResponseField(number(
                &mut self.response_fields,
                name,
            )));
        }
        if let Some(name) = name.strip_prefix("http_").and_then(field) {
            return Ok(Variable::RequestField(number(
                &mut self.request_fields,
                name,
            )));
        }
        Err(TemplateError::Unknown(name.to_owned()))
    }

    /// Returns the fields of requests whose values it writes.
    pub fn request_fields(&self) -> &[HeaderName] {
        &self.request_fields
    }

    /// Returns the fields of responses whose values it writes.
    pub fn response_fields(&self) -> &[HeaderName] {
        &self.response_fields
    }

    /// Returns true if it writes one of the variables.
    fn has(&self, names: &[Name]) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Variable(Variable::Named(name)) | Part::Number(Variable::Named(name)) => {
                names.contains(name)
            }
            _ => false,
        })
    }

    /// Returns true if it writes what is known only of requests to servers.
    pub fn names_servers(&self) -> bool {
        self.has(&OF_SERVERS)
    }

    /// Returns true if it writes the request's number.
    pub fn names_request_id(&self) -> bool {
        self.has(&[Name::RequestId])
    }

    /// Appends a record as a line, without its end. `now` is the time since 1970.
    pub fn write(
        &self,
        record: &Record<'_>,
        now: Duration,
        texts: &mut TimeText,
        line: &mut Vec<u8>,
    ) {
        let mut values = Values {
            record,
            now,
            texts,
            escape: self.escape,
        };
        for part in &self.parts {
            match part {
                Part::Text(text) => line.extend_from_slice(text),
                Part::Variable(variable) => {
                    if !values.append(*variable, line) && self.escape == Escape::Default {
                        line.push(b'-');
                    }
                }
                Part::Number(variable) => {
                    if !values.append(*variable, line) {
                        line.extend_from_slice(b"null");
                    }
                }
            }
        }
    }
}

/// The values of one record.
struct Values<'a, 'r> {
    record: &'a Record<'r>,
    now: Duration,
    texts: &'a mut TimeText,
    escape: Escape,
}

impl Values<'_, '_> {
    /// Appends a value. Returns false if it is missing.
    fn append(&mut self, variable: Variable, line: &mut Vec<u8>) -> bool {
        let name = match variable {
            Variable::Named(name) => name,
            Variable::RequestField(number) => {
                return self.text(self.record.request_fields.get(number), line);
            }
            Variable::ResponseField(number) => {
                return self.text(self.record.response_fields.get(number), line);
            }
        };
        let record = self.record;
        match name {
            Name::RemoteUser => return false,
            Name::TimeLocal => line.extend_from_slice(self.texts.local(self.now).as_bytes()),
            Name::TimeIso => {
                line.extend_from_slice(self.texts.iso(self.now).as_bytes());
                line.push(b'.');
                digits::<3>(self.now.subsec_millis(), line);
                line.push(b'Z');
            }
            Name::Msec => {
                number(self.now.as_secs(), line);
                line.push(b'.');
                digits::<3>(self.now.subsec_millis(), line);
            }
            Name::RemoteAddr => address(record.client, line),
            Name::RemotePort => match record.client {
                Peer::Tcp(address) if address.port() > 0 => number(address.port().into(), line),
                Peer::Tcp(_) | Peer::Unix => return false,
            },
            Name::Status => number(record.status.into(), line),
            Name::BodyBytesSent => number(record.body_bytes, line),
            Name::RequestTime => seconds(record.total, line),
            Name::TimeToFirstByte => match record.first_byte {
                Some(time) => seconds(time, line),
                None => return false,
            },
            Name::CacheStatus => line.extend_from_slice(record.cache.name().as_bytes()),
            Name::Request if record.method.is_empty() => return false,
            Name::Request => {
                self.text(Some(record.method.as_bytes()), line);
                line.push(b' ');
                self.text(Some(record.target.as_bytes()), line);
                line.push(b' ');
                line.extend_from_slice(record.protocol.name().as_bytes());
            }
            Name::UpstreamAddr => {
                return self.each(
                    |attempt, line| line.extend_from_slice(attempt.server.as_bytes()),
                    line,
                );
            }
            Name::UpstreamStatus => {
                let status = |attempt: &Attempt, line: &mut Vec<u8>| match attempt.status {
                    Some(status) => number(status.into(), line),
                    None => line.push(b'-'),
                };
                return self.each(status, line);
            }
            Name::UpstreamHeaderTime => {
                let time = |attempt: &Attempt, line: &mut Vec<u8>| match attempt.head {
                    Some(head) => seconds(head, line),
                    None => line.push(b'-'),
                };
                return self.each(time, line);
            }
            Name::UpstreamResponseTime => {
                return self.each(|attempt, line| seconds(attempt.total, line), line);
            }
            other => return self.text(self.of_text(other), line),
        }
        true
    }

    /// Returns the values that are text of the record.
    fn of_text(&self, name: Name) -> Option<&[u8]> {
        let record = self.record;
        let query = || memchr::memchr(b'?', record.target.as_bytes());
        let text = match name {
            Name::RequestMethod => record.method,
            Name::RequestUri => record.target,
            Name::Uri => query().map_or(record.target, |at| &record.target[..at]),
            Name::Args => &record.target[query()? + 1..],
            Name::Host => record.host,
            Name::Scheme => record.scheme,
            Name::ServerProtocol => record.protocol.name(),
            Name::UpstreamCacheStatus => record.cache.nginx_name()?,
            Name::RequestCompletion => "OK",
            Name::SslProtocol => record.tls?,
            Name::Refusal => record.refusal?,
            Name::RequestId => return record.request_id,
            _ => return None,
        };
        Some(text.as_bytes()).filter(|text| {
            !text.is_empty() && (name != Name::RequestCompletion || record.is_complete)
        })
    }

    fn text(&self, value: Option<&[u8]>, line: &mut Vec<u8>) -> bool {
        let Some(value) = value else { return false };
        append(self.escape, value, line);
        true
    }

    /// Appends a value of each request to a server.
    fn each(&self, write: impl Fn(&Attempt, &mut Vec<u8>), line: &mut Vec<u8>) -> bool {
        for (number, attempt) in self.record.upstream.iter().enumerate() {
            if number > 0 {
                line.extend_from_slice(b", ");
            }
            write(attempt, line);
        }
        !self.record.upstream.is_empty()
    }
}

fn number(value: u64, line: &mut Vec<u8>) {
    line.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the last `COUNT` digits of a number.
fn digits<const COUNT: usize>(mut value: u32, line: &mut Vec<u8>) {
    let mut text = [b'0'; COUNT];
    for digit in text.iter_mut().rev() {
        *digit = b"0123456789"[(value % 10) as usize];
        value /= 10;
    }
    line.extend_from_slice(&text);
}

/// Appends seconds with microseconds: hits take less than a millisecond.
fn seconds(time: Duration, line: &mut Vec<u8>) {
    number(time.as_secs(), line);
    line.push(b'.');
    digits::<6>(time.subsec_micros(), line);
}

/// Appends the address of a client. `core::fmt` would take a tenth of the time of a line.
fn address(client: Peer, line: &mut Vec<u8>) {
    if let Peer::Tcp(address) = client
        && let IpAddr::V4(address) = address.ip().to_canonical()
    {
        let [first, rest @ ..] = address.octets();
        number(first.into(), line);
        for octet in rest {
            line.push(b'.');
            number(octet.into(), line);
        }
        return;
    }
    // Writing to a vector cannot fail.
    let _ = write!(line, "{client}");
}

/// A text that is no format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// There is no variable with this name.
    Unknown(String),
    /// A name in braces does not end.
    Unclosed,
    /// This text has no variable.
    Nothing(String),
    /// A text with a line break or another control character.
    Control,
    /// A text longer than [`limits::LOG_FORMAT_BYTES`].
    TooLong,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::Unknown(name) => {
                write!(f, "there is no variable ${name}")?;
                let near = |known: &str| strsim::jaro(known, name);
                let best = NAMES
                    .iter()
                    .map(|(_, known, _)| *known)
                    .max_by(|a, b| near(a).total_cmp(&near(b)));
                match best.filter(|best| near(best) > 0.7) {
                    Some(best) => write!(f, "; did you mean ${best}?"),
                    None => f.write_str("; fields are $http_NAME and $sent_http_NAME"),
                }
            }
            TemplateError::Unclosed => f.write_str("a ${ has no }"),
            TemplateError::Nothing(text) => {
                write!(
                    f,
                    "{text:?} has no variable; expected \"combined\", \"json\", or a text such as \"$request $status\""
                )
            }
            TemplateError::Control => {
                f.write_str("a line break, or another control character: a record is one line")
            }
            TemplateError::TooLong => {
                write!(f, "a format has at most {} bytes", limits::LOG_FORMAT_BYTES)
            }
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::super::record::{CacheResult, Fields, Protocol};
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn record<'a>(target: &'a str, fields: &'a [Option<HeaderValue>]) -> Record<'a> {
        Record {
            client: Peer::Tcp(([192, 0, 2, 1], 5000).into()),
            scheme: "https",
            method: "GET",
            target,
            host: "a.example",
            protocol: Protocol::Http2,
            status: 200,
            body_bytes: 1000,
            cache: CacheResult::Hit,
            first_byte: Some(Duration::from_micros(123)),
            total: Duration::from_micros(1_000_456),
            is_complete: true,
            upstream: &[],
            tls: Some("TLSv1.3"),
            request_id: None,
            refusal: None,
            request_fields: Fields::Values(fields),
            response_fields: Fields::NONE,
        }
    }

    fn line(format: &str, escape: Escape, record: &Record<'_>) -> String {
        let mut line = Vec::new();
        let template = Template::parse(format, escape).unwrap_or_else(|error| panic!("{error}"));
        template.write(
            record,
            Duration::from_millis(1_795_545_866_007),
            &mut TimeText::default(),
            &mut line,
        );
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn combined_is_not_what_log_readers_know() {
        let fields = [None, Some(HeaderValue::from_static("curl/8 \"x\""))];
        assert_eq!(
            line("combined", Escape::Default, &record("/a?b", &fields)),
            "192.0.2.1 - - [24/Nov/2026:18:44:26 +0000] \"GET /a?b HTTP/2.0\" 200 1000 \"-\" \"curl/8 \\x22x\\x22\""
        );
    }

    #[test]
    fn every_variable_has_a_value_and_a_place() {
        let text = "$uri|$args|${msec}s|$$|$request_time $time_to_first_byte|$upstream_cache_status|$ssl_protocol|\
                    $request_completion|$upstream_addr|$sent_http_via|$remote_port";
        assert_eq!(
            line(text, Escape::Default, &record("/a?b", &[])),
            "/a|b|1795545866.007s|$|1.000456 0.000123|HIT|TLSv1.3|OK|-|-|5000"
        );
        let attempt = |server: &str, status, head| Attempt {
            server: server.to_owned(),
            status,
            head,
            total: Duration::from_millis(20),
        };
        let upstream = [
            attempt("a:1", None, None),
            attempt("b:2", Some(200), Some(Duration::from_millis(3))),
        ];
        let record = Record {
            upstream: &upstream,
            ..record("/", &[])
        };
        assert_eq!(
            line(
                "$upstream_addr $upstream_status $upstream_header_time $upstream_response_time",
                Escape::Default,
                &record
            ),
            "a:1, b:2 -, 200 -, 0.003000 0.020000, 0.020000"
        );
        for (name, text, _) in NAMES {
            let template = Template::parse(&format!("${text}"), Escape::Default).unwrap();
            assert_eq!(template.parts, [Part::Variable(Variable::Named(*name))]);
        }
    }

    #[test]
    fn a_wrong_format_is_accepted_or_refused_without_a_remedy() {
        for (format, part) in [
            ("$requst_time", "did you mean $request_time?"),
            ("$zzz", "$http_NAME"),
            ("$", "there is no variable $"),
            ("${status", "no }"),
            ("jsn", "\"json\""),
            ("", "combined"),
            ("$status\n", "one line"),
        ] {
            let error = Template::parse(format, Escape::Default)
                .expect_err(format)
                .to_string();
            assert!(
                error.contains(part) && !error.contains('\n'),
                "{format:?}: {error}"
            );
        }
        assert!(Template::parse(&"$status".repeat(2000), Escape::Default).is_err());
    }

    #[test]
    fn json_lacks_a_member_or_has_a_number_as_text() {
        let object: serde_json::Value =
            serde_json::from_str(&line("json", Escape::Default, &record("/a", &[]))).unwrap();
        assert_eq!(object.as_object().unwrap().len(), JSON.len());
        assert_eq!(
            (&object["status"], &object["request_uri"]),
            (&200.into(), &"/a".into())
        );
        assert_eq!(object["time_iso8601"], "2026-11-24T18:44:26.007Z");
        let left = Record {
            first_byte: None,
            is_complete: false,
            ..record("/a", &[])
        };
        let object: serde_json::Value =
            serde_json::from_str(&line("json", Escape::Default, &left)).unwrap();
        assert!(object["time_to_first_byte"].is_null() && object["request_completion"] == "");
    }

    proptest! {
        #[test]
        fn a_template_panics_or_writes_several_lines(
            format in "([$a-z_{} \"]|\\$http_a|\\$status|\\$request){0,12}",
            target in "\\PC{0,20}",
            value in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let fields = [HeaderValue::from_bytes(&value).ok()];
            for escape in [Escape::Default, Escape::Json] {
                if Template::parse(&format, escape).is_ok() {
                    let line = line(&format, escape, &record(&target, &fields));
                    prop_assert!(!line.contains('\n'));
                }
            }
            let json = line("json", Escape::Default, &record(&target, &fields));
            let object: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(&object["request_uri"], &serde_json::Value::from(target));
        }
    }
}

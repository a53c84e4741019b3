//! A line of a web server's log that is a JSON object: `format = "json"` of Larder's access log,
//! and any other with members of these names (nginx's variables): `host`, `request_uri`, `status`,
//! `body_bytes_sent`, and `time_iso8601` or `msec`. Caddy's lines have `ts`, `request` (with `host`
//! and `uri`), `status` and `size`.

use super::columns::name_hash;
use super::error::TraceProblem;
use super::lines::{time_of, whole};
use super::log_line::{LogLine, days};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow, default)]
    host: Cow<'a, str>,
    #[serde(borrow, default)]
    request_uri: Option<Cow<'a, str>>,
    #[serde(borrow)]
    status: Number<'a>,
    #[serde(borrow, alias = "size")]
    body_bytes_sent: Number<'a>,
    #[serde(borrow, default)]
    time_iso8601: Option<Cow<'a, str>>,
    #[serde(borrow, default, alias = "ts")]
    msec: Option<Number<'a>>,
    #[serde(borrow, default)]
    request: Option<CaddyRequest<'a>>,
}

/// Caddy's description of a request.
#[derive(Deserialize)]
struct CaddyRequest<'a> {
    #[serde(borrow)]
    host: Cow<'a, str>,
    #[serde(borrow)]
    uri: Cow<'a, str>,
}

/// A number, which many log formats put in quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number<'a> {
    Whole(u64),
    Decimal(f64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

impl Number<'_> {
    fn whole(&self) -> Option<u64> {
        match self {
            Number::Whole(number) => Some(*number),
            Number::Decimal(_) => None,
            Number::Text(text) => whole(text.as_bytes()),
        }
    }

    fn seconds(&self) -> Option<Duration> {
        let seconds = match self {
            Number::Whole(number) => return Some(Duration::from_secs(*number)),
            Number::Decimal(number) => *number,
            Number::Text(text) => text.parse().ok()?,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Reads a line. The object is host and target.
pub(super) fn read(line: &[u8]) -> Result<LogLine, TraceProblem> {
    let expected = || {
        TraceProblem::line(
            "`{\"time_iso8601\":…,\"host\":…,\"request_uri\":…,\"status\":…,\"body_bytes_sent\":…}`",
            line,
        )
    };
    if line.first() != Some(&b'{') {
        return Err(expected());
    }
    let members: Members<'_> = serde_json::from_slice(line).map_err(|_| expected())?;
    let (Some(status), Some(sent)) = (members.status.whole(), members.body_bytes_sent.whole())
    else {
        return Err(expected());
    };
    let since_1970 = match (&members.time_iso8601, &members.msec) {
        (Some(text), _) => iso_time(text.as_bytes())
            .ok_or_else(|| TraceProblem::field("log's time", text.as_bytes()))?,
        (None, Some(seconds)) => seconds.seconds().ok_or_else(expected)?,
        (None, None) => return Err(expected()),
    };
    let now = time_of(since_1970, line)?;
    let (host, target) = match (&members.request_uri, &members.request) {
        (Some(target), _) => (&members.host, target),
        (None, Some(CaddyRequest { host, uri })) => (host, uri),
        (None, None) => return Err(expected()),
    };
    let id = name_hash(&[host.as_bytes(), target.as_bytes()].concat());
    Ok(LogLine {
        now,
        id,
        status,
        sent,
    })
}

/// Reads `2026-11-24T18:44:26.123Z`, or with an offset such as `+01:00`, as the time since 1970.
pub(super) fn iso_time(text: &[u8]) -> Option<Duration> {
    let (date, rest) = text.split_at_checked(10)?;
    let (clock, rest) = rest.strip_prefix(b"T")?.split_at_checked(8)?;
    let numbers = |text: &[u8], separator: u8| -> Option<[u64; 3]> {
        let mut parts = text.split(|byte| *byte == separator).map(whole);
        let read = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(read)
    };
    let ([year, month, day], [hour, minute, second]) =
        (numbers(date, b'-')?, numbers(clock, b':')?);
    let is_time = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_time {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix(b".") {
        Some(rest) => rest.split_at(rest.iter().position(|byte| !byte.is_ascii_digit())?),
        None => (&b""[..], rest),
    };
    let nanos = fraction
        .iter()
        .take(9)
        .fold((0, 1_000_000_000), |(sum, unit), digit| {
            (sum + u64::from(digit - b'0') * (unit / 10), unit / 10)
        });
    let month = usize::try_from(month - 1).ok()?;
    let local = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = match zone {
        b"Z" => local,
        [sign @ (b'+' | b'-'), offset @ ..] => {
            let (hours, minutes) = offset.split_at_checked(2)?;
            let minutes = minutes.strip_prefix(b":").unwrap_or(minutes);
            let offset =
                whole(hours)? * 3600 + whole(minutes).filter(|minutes| *minutes < 60)? * 60;
            if *sign == b'+' {
                local.checked_sub(offset)?
            } else {
                local + offset
            }
        }
        _ => return None,
    };
    Some(Duration::from_secs(seconds) + Duration::from_nanos(nanos.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_caddy_is_refused_or_read_as_another() {
        let line = br#"{"level":"info","ts":1646861401.5241,"logger":"http.log.access","msg":"handled request",
            "request":{"remote_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b",
            "headers":{"User-Agent":["curl/7.82.0"]}},"bytes_read":0,"user_id":"","duration":0.0009,"size":10900,
            "status":200,"resp_headers":{"Server":["Caddy"]}}"#;
        let read = read(line).unwrap();
        assert_eq!(
            (read.status, read.sent, read.id),
            (200, 10_900, name_hash(b"localhost/a?b"))
        );
        assert_eq!(read.now.nanos() / 1_000_000, 1_646_861_401_524);
        // Caddy also logs lines that describe no request.
        assert!(super::read(br#"{"level":"info","ts":1646861401.5,"msg":"serving"}"#).is_err());
    }

    #[test]
    fn a_time_is_another_one() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(Duration::ZERO)),
            (
                "2026-11-24T18:44:26.123Z",
                Some(Duration::from_millis(1_795_545_866_123)),
            ),
            (
                "2026-11-24T19:44:26+01:00",
                Some(Duration::from_secs(1_795_545_866)),
            ),
            (
                "2026-11-24T16:44:26.5-0200",
                Some(Duration::from_millis(1_795_545_866_500)),
            ),
            ("1970-01-01T00:00:00+01:00", None),
            ("2026-13-24T18:44:26Z", None),
            ("2026-11-24T18:44:26", None),
            ("2026-11-24 18:44:26Z", None),
            ("2026-11-24T18:44:26.", None),
            ("", None),
        ] {
            assert_eq!(iso_time(text.as_bytes()), expected, "{text}");
        }
    }
}

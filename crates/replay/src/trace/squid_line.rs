//! A line of Squid's native access log, with blanks between its fields:
//! `1286536309.586 921 192.0.2.7 TCP_MISS/200 507 GET http://example.com/ - HIER_DIRECT/192.0.2.9 text/html`.
//! (Squid documentation, `logformat squid %ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru ...`)

use super::columns::name_hash;
use super::error::TraceProblem;
use super::lines::{time_of, whole};
use super::log_line::LogLine;
use std::time::Duration;

/// Returns true if a line is of this format.
pub(super) fn is_line(line: &[u8]) -> bool {
    read(line).is_ok()
}

/// Reads a line. The status of a tunnel (`CONNECT`) is 0, because no cache stores its bytes. The
/// bytes include the head of the response.
pub(super) fn read(line: &[u8]) -> Result<LogLine, TraceProblem> {
    let expected = || {
        TraceProblem::line(
            "`time.ms elapsed client result/status bytes method URL …`",
            line,
        )
    };
    let mut fields = line
        .split(u8::is_ascii_whitespace)
        .filter(|field| !field.is_empty());
    let mut field = || fields.next().ok_or_else(expected);
    let (time, elapsed, _client, result) = (field()?, field()?, field()?, field()?);
    let (bytes, method, url) = (field()?, field()?, field()?);
    let since_1970 = seconds(time).ok_or_else(expected)?;
    whole(elapsed).ok_or_else(expected)?;
    let slash = result
        .iter()
        .rposition(|byte| *byte == b'/')
        .ok_or_else(expected)?;
    let status = whole(&result[slash + 1..])
        .filter(|_| result.len() == slash + 4)
        .ok_or_else(expected)?;
    let sent = whole(bytes).ok_or_else(expected)?;
    let status = if method == b"CONNECT" { 0 } else { status };
    Ok(LogLine {
        now: time_of(since_1970, line)?,
        id: name_hash(url),
        status,
        sent,
    })
}

/// Reads `1286536309.586` as the time since 1970.
fn seconds(text: &[u8]) -> Option<Duration> {
    let dot = text.iter().position(|byte| *byte == b'.')?;
    let (seconds, millis) = (whole(&text[..dot])?, whole(&text[dot + 1..])?);
    (text.len() == dot + 4).then(|| Duration::from_secs(seconds) + Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_another() {
        let line = b"1286536309.586    921 192.0.2.7 TCP_MEM_HIT/304 507 GET http://a/?x=1 - HIER_NONE/- text/html";
        let read = read(line).unwrap();
        assert_eq!(
            (read.status, read.sent, read.id),
            (304, 507, name_hash(b"http://a/?x=1"))
        );
        assert_eq!(read.now, larder_units::Time::from_millis(1_286_536_309_586));
        let tunnel = b"1286536309.586 9 192.0.2.7 TCP_TUNNEL/200 5070 CONNECT a:443 - HIER_DIRECT/192.0.2.9 -";
        assert_eq!(super::read(tunnel).unwrap().status, 0);
    }

    #[test]
    fn lines_of_other_formats_are_taken_for_squid_s() {
        for line in [
            &b""[..],
            b"1286536309 921 192.0.2.7 TCP_MISS/200 507 GET http://a/",
            b"1286536309.586 921 192.0.2.7 TCP_MISS 507 GET http://a/",
            b"1286536309.586 921 192.0.2.7 TCP_MISS/2000 507 GET http://a/",
            b"1286536309.586 x 192.0.2.7 TCP_MISS/200 507 GET http://a/",
            b"1286536309.586 921 192.0.2.7 TCP_MISS/200 507 GET",
            b"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 23",
            b"18446744073709551615.999 921 192.0.2.7 TCP_MISS/200 507 GET http://a/",
        ] {
            assert!(!is_line(line), "{}", String::from_utf8_lossy(line));
        }
    }
}

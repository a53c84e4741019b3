//! A line of a web server's log in the Common Log Format, as every server writes it, or in the
//! combined format, which adds two fields:
//! `host ident user [10/Oct/2000:13:55:36 -0700] "GET /index.html HTTP/1.0" 200 2326`.

use super::columns::name_hash;
use super::error::TraceProblem;
use super::lines::whole;
use larder_units::Time;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// The request of a line.
pub(super) struct LogLine {
    pub now: Time,
    /// The number of the URL.
    pub id: u64,
    pub status: u64,
    /// Bytes sent, 0 for `-`.
    pub sent: u64,
}

impl LogLine {
    /// Returns true if a line is of this format.
    pub fn is_line(line: &[u8]) -> bool {
        LogLine::of(line).is_ok()
    }

    pub fn of(line: &[u8]) -> Result<LogLine, TraceProblem> {
        let expected = || TraceProblem::line("`… [time] \"GET /url HTTP/1.0\" status bytes`", line);
        let (_, rest) = split_at(line, b" [").ok_or_else(expected)?;
        let (time, rest) = split_at(rest, b"] \"").ok_or_else(expected)?;
        // A URL may have a quote, so the request ends at the first quote before status and bytes.
        let (request, answer) = request_and_answer(rest).ok_or_else(expected)?;
        let now = seconds(time).ok_or_else(|| TraceProblem::field("log's time", time))?;
        let mut words = request
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        let url = words
            .next()
            .map(|method| words.next().unwrap_or(method))
            .unwrap_or_default();
        let (status, sent) = answer;
        Ok(LogLine {
            now: Time::from_secs(now),
            id: name_hash(url),
            status,
            sent,
        })
    }
}

fn request_and_answer(rest: &[u8]) -> Option<(&[u8], (u64, u64))> {
    let quotes = rest.iter().enumerate().filter(|(_, byte)| **byte == b'"');
    quotes.map(|(at, _)| at).find_map(|at| {
        let mut fields = rest[at + 1..]
            .strip_prefix(b" ")?
            .split(|byte| *byte == b' ');
        let status = fields
            .next()
            .filter(|status| status.len() == 3)
            .and_then(whole)?;
        let sent = match fields.next()?.trim_ascii() {
            b"-" => 0,
            sent => whole(sent)?,
        };
        Some((&rest[..at], (status, sent)))
    })
}

/// Reads `10/Oct/2000:13:55:36 -0700` as seconds since the start of 1970.
fn seconds(text: &[u8]) -> Option<u64> {
    let (date, zone) = split_at(text, b" ")?;
    let (date, time) = split_at(date, b":")?;
    let mut date = date.split(|byte| *byte == b'/');
    let (day, month, year) = (whole(date.next()?)?, date.next()?, whole(date.next()?)?);
    let month = MONTHS.iter().position(|name| *name == month)?;
    let mut time = time.split(|byte| *byte == b':').map(whole);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let (sign, offset) = zone.split_first()?;
    let offset = whole(offset).filter(|offset| offset % 100 < 60 && *offset < 2400)?;
    let is_time = (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_time {
        return None;
    }
    let local = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    let offset = offset / 100 * 3600 + offset % 100 * 60;
    match sign {
        b'+' => local.checked_sub(offset),
        b'-' => Some(local + offset),
        _ => None,
    }
}

/// Returns the days from 1970 to a date of the Gregorian calendar; January is month 0.
pub(super) fn days(year: u64, month: usize, day: u64) -> u64 {
    let before: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
        + before[month]
        + u64::from(is_leap && month > 1)
        + day
        - 1
}

fn split_at<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = text
        .windows(separator.len())
        .position(|window| window == separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_another_day_or_zone() {
        for (text, expected) in [
            ("01/Jan/1970:00:00:00 +0000", Some(0)),
            ("10/Oct/2000:13:55:36 -0700", Some(971_211_336)),
            ("01/Aug/1995:00:00:00 -0400", Some(807_249_600)),
            ("29/Feb/2000:00:00:00 +0000", Some(951_782_400)),
            ("01/Mar/2100:00:00:00 +0000", Some(4_107_542_400)),
            ("01/Jan/2024:01:30:00 +0130", Some(1_704_067_200)),
            ("01/Jan/1970:00:00:00 +0100", None),
            ("00/Jan/1970:00:00:00 +0000", None),
            ("01/Foo/1999:00:00:00 +0000", None),
            ("01/Jan/1999:24:00:00 +0000", None),
            ("01/Jan/1999:00:00:00", None),
            ("01/Jan/99999999999999999999:00:00:00 +0000", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }
}

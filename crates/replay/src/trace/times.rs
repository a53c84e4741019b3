//! The times of logs and traces: numbers in several units, and dates in the forms that servers
//! write.

use super::decimal::whole;
use super::error::{TraceProblem, shown};
use larder_units::Time;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// The unit of a time that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Units of 100 ns, in which Windows counts.
    HundredNanos,
    /// Nanoseconds.
    Nanos,
    /// Year, month, day, hour, minute and second in 14 digits.
    Calendar,
}

impl TimeUnit {
    /// Returns the nanoseconds of the unit.
    pub(super) fn nanos(self) -> u64 {
        match self {
            TimeUnit::Seconds => 1_000_000_000,
            TimeUnit::Millis => 1_000_000,
            TimeUnit::Micros => 1_000,
            TimeUnit::HundredNanos => 100,
            TimeUnit::Nanos | TimeUnit::Calendar => 1,
        }
    }

    /// Returns the unit of a time since 1970 with this whole part, by its size. Seconds have 10
    /// digits from 2001 to 2286, and each finer unit has three more. Smaller numbers count from
    /// another start, in a unit that they do not tell: seconds are usual.
    pub(super) fn of_size(number: u64) -> TimeUnit {
        match number {
            0..100_000_000_000 => TimeUnit::Seconds,
            100_000_000_000..100_000_000_000_000 => TimeUnit::Millis,
            100_000_000_000_000..100_000_000_000_000_000 => TimeUnit::Micros,
            _ => TimeUnit::Nanos,
        }
    }

    /// Returns the unit that a column's name states, such as `time_ms` or `timestamp (us)`.
    pub(super) fn of_name(name: &[u8]) -> Option<TimeUnit> {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let mut words = name.split(|letter: char| !letter.is_alphanumeric());
        words.find_map(|word| match word {
            "sec" | "secs" | "seconds" | "s" | "unix" => Some(TimeUnit::Seconds),
            "ms" | "millis" | "milliseconds" | "milli" => Some(TimeUnit::Millis),
            "us" | "micros" | "microseconds" | "usec" => Some(TimeUnit::Micros),
            "ns" | "nanos" | "nanoseconds" | "nano" => Some(TimeUnit::Nanos),
            _ => None,
        })
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeUnit::Seconds => "seconds",
            TimeUnit::Millis => "milliseconds",
            TimeUnit::Micros => "microseconds",
            TimeUnit::HundredNanos => "units of 100 ns",
            TimeUnit::Nanos => "nanoseconds",
            TimeUnit::Calendar => "dates in 14 digits",
        })
    }
}

/// A text that is no [`TimeUnit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeUnitError(String);

impl fmt::Display for TimeUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no unit of time: s, ms, us or ns", self.0)
    }
}

impl std::error::Error for TimeUnitError {}

impl FromStr for TimeUnit {
    type Err = TimeUnitError;

    fn from_str(text: &str) -> Result<TimeUnit, TimeUnitError> {
        match text {
            "s" => Ok(TimeUnit::Seconds),
            "ms" => Ok(TimeUnit::Millis),
            "us" | "µs" => Ok(TimeUnit::Micros),
            "ns" => Ok(TimeUnit::Nanos),
            _ => Err(TimeUnitError(text.to_owned())),
        }
    }
}

/// Returns the whole part of a decimal number.
pub(super) fn whole_part(text: &[u8]) -> Option<u64> {
    whole(text.split(|byte| *byte == b'.').next().unwrap_or_default())
}

/// Reads a number of `unit`, with a fraction or without: exact to the nanosecond in decimals, and
/// as a float with an exponent.
pub(super) fn number(text: &[u8], unit: TimeUnit) -> Result<Time, TraceProblem> {
    let expected = || match unit {
        TimeUnit::Seconds => TraceProblem::field("time in seconds", text),
        _ => TraceProblem::field("time", text),
    };
    if unit == TimeUnit::Calendar {
        return calendar(text).ok_or_else(expected);
    }
    let late = || TraceProblem::LateTime(shown(text));
    let point = text.iter().position(|byte| *byte == b'.');
    let (digits, decimals) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b""[..]),
    };
    let is_decimal = !digits.is_empty()
        && digits.len() <= 20
        && (point.is_none() || !decimals.is_empty())
        && digits.iter().chain(decimals).all(u8::is_ascii_digit);
    if is_decimal {
        let nanos = whole(digits).and_then(|number| number.checked_mul(unit.nanos()));
        let mut step = unit.nanos();
        let mut fraction = 0;
        for digit in decimals {
            step /= 10;
            fraction += u64::from(digit - b'0') * step;
        }
        let nanos = nanos.and_then(|nanos| nanos.checked_add(fraction));
        return nanos.map(Time::from_nanos).ok_or_else(late);
    }
    let float = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|number| *number >= 0.0)
        .ok_or_else(expected)?;
    let nanos = Duration::try_from_secs_f64(float * unit.nanos() as f64 / 1e9)
        .ok()
        .and_then(|since| u64::try_from(since.as_nanos()).ok());
    nanos.map(Time::from_nanos).ok_or_else(late)
}

/// Reads a time in whole seconds.
pub(super) fn whole_seconds(text: &[u8]) -> Result<Time, TraceProblem> {
    if whole(text).is_none() {
        return Err(TraceProblem::field("time in seconds", text));
    }
    number(text, TimeUnit::Seconds)
}

/// Reads a time in any form: a number, whose unit its size shows if it is not given, or a date.
pub(super) fn any(text: &[u8], unit: Option<TimeUnit>) -> Result<Time, TraceProblem> {
    let is_number = text
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.');
    if is_number && let Some(number_read) = whole_part(text) {
        return number(text, unit.unwrap_or_else(|| TimeUnit::of_size(number_read)));
    }
    match date(text) {
        Some(time) => Ok(time),
        None if unit.is_some() || text.iter().any(|byte| matches!(byte, b'e' | b'E')) => {
            // JSON writes large numbers with an exponent.
            let float: Option<f64> = std::str::from_utf8(text).ok().and_then(|t| t.parse().ok());
            let size = float.map_or(0, |float| {
                Duration::try_from_secs_f64(float).map_or(u64::MAX, |since| since.as_secs())
            });
            number(text, unit.unwrap_or_else(|| TimeUnit::of_size(size)))
        }
        None => Err(TraceProblem::field("time", text)),
    }
}

/// Reads a date with its time of day, as the time since the start of 1970:
/// `10/Oct/2025:13:55:36 -0700`, `2025-10-10T13:55:36.123Z`, `2025/10/10 13:55:36`,
/// `Fri, 10 Oct 2025 13:55:36 GMT`, `Fri Oct 10 13:55:36 2025`. Without a zone it is UTC.
pub(super) fn date(text: &[u8]) -> Option<Time> {
    let text = text.trim_ascii();
    let text = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"))
        .unwrap_or(text);
    if text.get(2) == Some(&b'/') && text.get(6) == Some(&b'/') {
        return log_date(text);
    }
    if matches!(text.get(4), Some(b'-' | b'/')) {
        return iso_date(text);
    }
    worded_date(text)
}

/// A date and a time of day, which may not exist.
#[derive(Clone, Copy, Default)]
struct Calendar {
    year: u64,
    /// January is 0.
    month: usize,
    day: u64,
    second_of_day: u64,
    nanos: u64,
}

impl Calendar {
    /// Returns the time since the start of 1970, of a clock this many seconds before UTC.
    fn time(self, seconds_east: i64) -> Option<Time> {
        let is_date = (1970..=9999).contains(&self.year) && (1..=31).contains(&self.day);
        if !is_date || self.month > 11 {
            return None;
        }
        let local = days(self.year, self.month, self.day) * 86_400 + self.second_of_day;
        let seconds = local.checked_add_signed(seconds_east.checked_neg()?)?;
        let nanos = seconds
            .checked_mul(1_000_000_000)?
            .checked_add(self.nanos)?;
        Some(Time::from_nanos(nanos))
    }
}

/// Reads `10/Oct/2000:13:55:36.123 -0700`.
fn log_date(text: &[u8]) -> Option<Time> {
    let [
        d1,
        d2,
        b'/',
        m1,
        m2,
        m3,
        b'/',
        y1,
        y2,
        y3,
        y4,
        b':' | b' ',
        rest @ ..,
    ] = text
    else {
        return None;
    };
    let date = Calendar {
        year: two(*y1, *y2)? * 100 + two(*y3, *y4)?,
        month: month(&[*m1, *m2, *m3])?,
        day: two(*d1, *d2)?,
        ..Calendar::default()
    };
    with_clock(date, rest)
}

/// Reads `2026-11-24T18:44:26.123Z`, or with an offset such as `+01:00`.
fn iso_date(text: &[u8]) -> Option<Time> {
    let [
        y1,
        y2,
        y3,
        y4,
        b'-' | b'/',
        m1,
        m2,
        b'-' | b'/',
        d1,
        d2,
        b'T' | b't' | b' ',
        rest @ ..,
    ] = text
    else {
        return None;
    };
    let month = usize::try_from(two(*m1, *m2)?.checked_sub(1)?).ok()?;
    let date = Calendar {
        year: two(*y1, *y2)? * 100 + two(*y3, *y4)?,
        month,
        day: two(*d1, *d2)?,
        ..Calendar::default()
    };
    with_clock(date, rest)
}

/// Reads `20160201164559`.
fn calendar(text: &[u8]) -> Option<Time> {
    let (date, clock) = text.split_at_checked(8)?;
    let [h1, h2, m1, m2, s1, s2] = clock else {
        return None;
    };
    let [y1, y2, y3, y4, o1, o2, d1, d2] = date else {
        return None;
    };
    let text = [
        *y1, *y2, *y3, *y4, b'-', *o1, *o2, b'-', *d1, *d2, b' ', *h1, *h2, b':', *m1, *m2, b':',
        *s1, *s2,
    ];
    iso_date(&text)
}

/// Reads `Fri, 10 Oct 2025 13:55:36 GMT`, and the form of C's `asctime`.
fn worded_date(text: &[u8]) -> Option<Time> {
    let mut date = Calendar::default();
    let (mut has_month, mut clock, mut east) = (false, None, 0);
    let words = text
        .split(|byte| matches!(byte, b' ' | b',' | b'-' | b'/'))
        .filter(|word| !word.is_empty());
    for word in words {
        match word {
            [a, b, c] if month(&[*a, *b, *c]).is_some() => {
                (date.month, has_month) = (month(&[*a, *b, *c])?, true);
            }
            [_, _, b':', ..] => clock = Some(word),
            [b'0'..=b'9'] | [b'0'..=b'9', b'0'..=b'9'] => date.day = whole(word)?,
            [b'0'..=b'9', _, _, _] => date.year = whole(word)?,
            [b'+', ..] => east = zone(word)?,
            _ => {}
        }
    }
    if !has_month {
        return None;
    }
    let (seconds, nanos, _) = clock_of(clock?)?;
    date.second_of_day = seconds;
    date.nanos = nanos;
    date.time(east)
}

/// Returns the time of a date whose time of day and zone are `rest`.
fn with_clock(mut date: Calendar, rest: &[u8]) -> Option<Time> {
    let (seconds, nanos, rest) = clock_of(rest)?;
    date.second_of_day = seconds;
    date.nanos = nanos;
    date.time(zone(rest)?)
}

/// Reads two digits.
fn two(tens: u8, ones: u8) -> Option<u64> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| u64::from(tens - b'0') * 10 + u64::from(ones - b'0'))
}

/// Reads `13:55:36.123` as the second of the day and nanoseconds, and returns the text after it.
fn clock_of(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text else {
        return None;
    };
    let (hour, minute, second) = (two(*h1, *h2)?, two(*m1, *m2)?, two(*s1, *s2)?);
    if hour >= 24 || minute >= 60 || second > 60 {
        return None;
    }
    let seconds = hour * 3600 + minute * 60 + second;
    let [b'.' | b',' | b':', fraction @ ..] = rest else {
        return Some((seconds, 0, rest));
    };
    let digits = fraction
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits == 0 {
        return None;
    }
    let (mut nanos, mut step) = (0, 1_000_000_000);
    for digit in &fraction[..digits] {
        step /= 10;
        nanos += u64::from(digit - b'0') * step;
    }
    Some((seconds, nanos, &fraction[digits..]))
}

/// Reads a zone as seconds east of Greenwich: `Z`, `+0130`, `-01:30`, `+01`, or none, which is UTC.
fn zone(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    let (sign, offset) = match text {
        b"" | b"Z" | b"z" | b"UTC" | b"GMT" => return Some(0),
        [b'+', offset @ ..] => (1, offset),
        [b'-', offset @ ..] => (-1, offset),
        _ => return None,
    };
    let (hours, minutes) = offset.split_at_checked(2)?;
    let minutes = match minutes.strip_prefix(b":").unwrap_or(minutes) {
        b"" => 0,
        minutes => whole(minutes).filter(|minutes| *minutes < 60)?,
    };
    let hours = whole(hours).filter(|hours| *hours < 24)?;
    i64::try_from(hours * 3600 + minutes * 60)
        .ok()
        .map(|seconds| sign * seconds)
}

fn month(name: &[u8; 3]) -> Option<usize> {
    let name = name.to_ascii_lowercase();
    MONTHS.iter().position(|known| known[..] == name[..])
}

/// Returns the days from 1970 to a date of the Gregorian calendar; January is month 0.
fn days(year: u64, month: usize, day: u64) -> u64 {
    let before: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
        + before[month]
        + u64::from(is_leap && month > 1)
        + day
        - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a date is another time, or a text that is no date is one.
    #[test]
    fn a_date_is_another_time() {
        for (text, seconds) in [
            ("01/Jan/1970:00:00:00 +0000", Some(0)),
            ("10/Oct/2000:13:55:36 -0700", Some(971_211_336)),
            ("01/Aug/1995:00:00:00 -0400", Some(807_249_600)),
            ("29/Feb/2000:00:00:00 +0000", Some(951_782_400)),
            ("01/Mar/2100:00:00:00 +0000", Some(4_107_542_400)),
            ("01/Jan/2024:01:30:00 +0130", Some(1_704_067_200)),
            ("06/Feb/2025:12:14:14", Some(1_738_844_054)),
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-24T19:44:26+01:00", Some(1_795_545_866)),
            ("2026-11-24T16:44:26-0200", Some(1_795_545_866)),
            ("2026-11-24 18:44:26", Some(1_795_545_866)),
            ("2026/11/24 18:44:26", Some(1_795_545_866)),
            ("2026-11-24T18:44:26", Some(1_795_545_866)),
            ("2026-11-24 18:44:26 UTC", Some(1_795_545_866)),
            ("Tue, 24 Nov 2026 18:44:26 GMT", Some(1_795_545_866)),
            ("Tue Nov 24 18:44:26 2026", Some(1_795_545_866)),
            ("01/Jan/1970:00:00:00 +0100", None),
            ("00/Jan/1970:00:00:00 +0000", None),
            ("01/Foo/1999:00:00:00 +0000", None),
            ("01/Jan/1999:24:00:00 +0000", None),
            ("1970-01-01T00:00:00+01:00", None),
            ("2026-13-24T18:44:26Z", None),
            ("2026-11-24T18:44:26.", None),
            ("2026-11-24", None),
            ("Nov", None),
            ("", None),
        ] {
            let read = date(text.as_bytes()).map(|time| time.nanos());
            assert_eq!(
                read,
                seconds.map(|seconds: u64| seconds * 1_000_000_000),
                "{text}"
            );
        }
        for (text, millis) in [
            ("2026-11-24T18:44:26.123Z", 1_795_545_866_123),
            ("2026-11-24 18:44:26,123", 1_795_545_866_123),
            ("24/Nov/2026:18:44:26.123 +0000", 1_795_545_866_123),
        ] {
            assert_eq!(
                date(text.as_bytes()),
                Some(Time::from_millis(millis)),
                "{text}"
            );
        }
    }

    /// Failure: milliseconds are taken for seconds, or a fraction is lost.
    #[test]
    fn a_number_is_another_time() {
        for (text, unit, nanos) in [
            ("1760104500", None, 1_760_104_500_000_000_000),
            ("1760104500.25", None, 1_760_104_500_250_000_000),
            ("1760104500123", None, 1_760_104_500_123_000_000),
            ("1760104500123.5", None, 1_760_104_500_123_500_000),
            ("1760104500123456", None, 1_760_104_500_123_456_000),
            ("1760104500123456789", None, 1_760_104_500_123_456_789),
            ("100", None, 100_000_000_000),
            ("100", Some(TimeUnit::Millis), 100_000_000),
            ("1.5", Some(TimeUnit::Micros), 1_500),
            ("1.5e3", Some(TimeUnit::Seconds), 1_500_000_000_000),
            ("1.760104500e9", None, 1_760_104_500_000_000_000),
        ] {
            assert_eq!(any(text.as_bytes(), unit).unwrap().nanos(), nanos, "{text}");
        }
        for text in ["", "x", "-1", "18446744073709551616", "."] {
            assert!(any(text.as_bytes(), None).is_err(), "{text}");
        }
    }
}

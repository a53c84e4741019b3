//! The times of a ValidityPeriod.

/// `YYYYMMDDThhmmss` (ISO 8601, UTC) as seconds since 1970; a time before 1970 is 1970.
pub(crate) fn seconds(text: &[u8]) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.iter().all(u8::is_ascii_digit).then(|| {
            digits
                .iter()
                .fold(0i64, |n, d| n * 10 + i64::from(d - b'0'))
        })
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second) = (number(9..11)?, number(11..13)?, number(13..15)?);
    if text.len() != 15 || text[8] != b'T' || !(1..=12).contains(&month) || !(1..=31).contains(&day)
    {
        return None;
    }
    // Days since 1970 in the Gregorian calendar, years counted from March so that the leap day is
    // the last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    Some(u64::try_from(seconds).unwrap_or(0))
}

/// Returns a time as `YYYYMMDDThhmmss` (ISO 8601, UTC).
pub(crate) fn time_of(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years are counted from March, so that the leap day is the last. There are 719,468 days from
    // March of the year 0 to 1970. The calendar repeats after 146,097 days (400 years).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year_of_era + next_year;
    format!(
        "{year:04}{month:02}{day:02}T{:02}{:02}{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expected) in [
            ("19700101T000000", 0),
            ("20000229T235959", 951_868_799),
            ("20000301T000000", 951_868_800),
            ("20261122T013000", 1_795_311_000),
            ("00010101T000000", 0),
        ] {
            assert_eq!(seconds(text.as_bytes()), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "20261122",
            "20261322T000000",
            "2026112xT000000",
            "20261122 000000",
            "20261122T0000001",
        ] {
            assert_eq!(seconds(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn times_are_not_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000"),
            (951_868_799, "20000229T235959"),
            (951_868_800, "20000301T000000"),
            (1_795_311_000, "20261122T013000"),
            (4_102_444_799, "20991231T235959"),
        ] {
            assert_eq!(time_of(seconds), expected);
        }
    }
}

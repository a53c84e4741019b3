//! Times as text, in UTC. The text of a second is made once.

use std::time::Duration;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The texts of the current second.
#[derive(Debug, Default)]
pub struct TimeText {
    second: Option<u64>,
    local: String,
    iso: String,
}

impl TimeText {
    /// `24/Nov/2026:18:44:26 +0000`.
    pub(super) fn local(&mut self, now: Duration) -> &str {
        self.update(now);
        &self.local
    }

    /// `2026-11-24T18:44:26`, without zone and fraction.
    pub(super) fn iso(&mut self, now: Duration) -> &str {
        self.update(now);
        &self.iso
    }

    fn update(&mut self, now: Duration) {
        let second = now.as_secs();
        if self.second == Some(second) {
            return;
        }
        self.second = Some(second);
        let (year, month, day) = date(second / 86_400);
        let (hours, minutes, seconds) = (second / 3600 % 24, second / 60 % 60, second % 60);
        let name = MONTHS[month as usize - 1];
        self.local = format!("{day:02}/{name}/{year}:{hours:02}:{minutes:02}:{seconds:02} +0000");
        self.iso = format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}");
    }
}

/// Returns year, month and day of the Gregorian calendar, so many days after 1970 began.
/// (Hinnant, "chrono-compatible low-level date algorithms": years begin in March.)
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_date_of_another_day() {
        let mut text = TimeText::default();
        for (second, expected) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (951_868_800, "2000-03-01T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (1_795_545_866, "2026-11-24T18:44:26"),
        ] {
            assert_eq!(text.iso(Duration::from_secs(second)), expected);
        }
        assert_eq!(
            text.local(Duration::from_secs(1_795_545_866)),
            "24/Nov/2026:18:44:26 +0000"
        );
    }
}

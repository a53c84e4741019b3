//! Where and how a reproduction ran: commit, processor, load, stolen time, command.

use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The commit of a package, its date, and "changed since" if files differed from it, as
/// `packaging/build` names them. None in other builds.
pub const BUILD_COMMIT: Option<&str> = option_env!("LARDER_BUILD_COMMIT");

/// The conditions of a run that are not in its experiments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command, as typed.
    pub command: String,
    /// The commit of the source directory at the start, with "changed" if files differ from it, and
    /// with a warning if the program is older. "unknown" without a repository.
    pub commit: String,
    /// The day and time of the start, UTC.
    pub started: String,
    /// Wall time until the end, s, with that of rows which an earlier run has finished. The start,
    /// the load and the stolen time are of the last run that measured a row, or of this one without
    /// rows. `None` if it was not recorded.
    pub seconds: Option<u64>,
    /// The model of the processor.
    pub processor: String,
    /// The processors that this process may use.
    pub processors: usize,
    /// The load average of one minute at the start and at the end.
    pub load: [f64; 2],
    /// The share of the processors' time that the hypervisor gave to other machines, %.
    pub steal_percent: f64,
    /// The share of the processors' time that other programs took: neither this one nor those that
    /// it started and that have ended, %. `None` if it was not recorded.
    #[serde(default)]
    pub other_percent: Option<f64>,
    #[serde(skip)]
    begun: Option<Instant>,
    #[serde(skip)]
    ticks: Ticks,
}

/// The processors' time since the machine started, in units of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    all: u64,
    stolen: u64,
    /// That of all programs: without interrupts, which the work of this one causes, too.
    programs: u64,
    /// That of this process, and of the ended ones that it started. One whose parent was killed
    /// counts as another program.
    own: u64,
}

/// The stolen time above which timed results count as disturbed, %. Runs on the machine of the
/// archives have .2 at most.
const MOST_STOLEN_PERCENT: f64 = 1.0;

/// The time of other programs above which timed results count as disturbed, %: a twentieth of what
/// the experiment may use. A desktop or a server without work takes 1 to 2.
const MOST_OTHER_PERCENT: f64 = 5.0;

impl Provenance {
    /// Returns the conditions at the start of a run.
    pub(crate) fn now() -> Provenance {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = load();
        Provenance {
            command: command(std::env::args()),
            commit: commit(),
            started: now(),
            seconds: None,
            processor: model.map_or_else(
                || std::env::consts::ARCH.to_owned(),
                |(_, model)| model.to_owned(),
            ),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            load: [load; 2],
            steal_percent: 0.0,
            other_percent: None,
            begun: Some(Instant::now()),
            ticks: ticks(),
        }
    }

    /// Returns the conditions at the start of an experiment of this run: the program is the same.
    pub(crate) fn of_experiment(&self) -> Provenance {
        let (begun, started) = (Some(Instant::now()), now());
        Provenance {
            started,
            load: [load(); 2],
            begun,
            ticks: ticks(),
            ..self.clone()
        }
    }

    /// Takes the wall time, the load and the times of others since the start. `resumed` is the time
    /// of an earlier run's rows.
    pub(crate) fn update(&mut self, resumed: Duration) {
        self.seconds = self
            .begun
            .map(|begun| (begun.elapsed() + resumed).as_secs());
        self.load[1] = load();
        let now = ticks();
        // The kernel's counts may fall, or may be unreadable now.
        let all = now.all.saturating_sub(self.ticks.all);
        let percent = |ticks: u64| 100.0 * ticks as f64 / all.max(1) as f64;
        let since = |of: fn(&Ticks) -> u64| of(&now).saturating_sub(of(&self.ticks));
        self.steal_percent = percent(since(|ticks| ticks.stolen));
        let programs = since(|ticks| ticks.programs);
        self.other_percent = Some(percent(programs.saturating_sub(since(|ticks| ticks.own))));
    }

    /// Returns why times that were measured meanwhile are not to be trusted, if so.
    pub(crate) fn disturbance(&self) -> Option<String> {
        let of = |percent: f64, most: f64, others: &str| {
            (percent > most)
                .then(|| format!("{others} took {percent:.1} % of the processors' time, and {most} % is the limit"))
        };
        let stolen = of(self.steal_percent, MOST_STOLEN_PERCENT, "other machines");
        stolen.or_else(|| of(self.other_percent?, MOST_OTHER_PERCENT, "other programs"))
    }
}

/// Returns a word as a shell takes it.
fn quoted(word: String) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn command(mut words: impl Iterator<Item = String>) -> String {
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    std::iter::once(name)
        .chain(words.map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The directory of the sources, whose repository knows the commit. A package does not look there,
/// and does not have the path: it is the same wherever it was built.
const SOURCES: &str = match BUILD_COMMIT {
    Some(_) => "",
    None => env!("CARGO_MANIFEST_DIR"),
};

/// Returns the commit of the directory from which the program was built, which has gone on since if
/// the program is older than the commit; of a package, the commit that it was built from.
fn commit() -> String {
    if let Some(commit) = BUILD_COMMIT {
        return commit.to_owned();
    }
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .arg("-C")
            .arg(SOURCES)
            .args(words)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(described) = git(&["log", "-1", "--format=%H %ct"]) else {
        return "unknown".to_owned();
    };
    let Some((commit, time)) = described.split_once(' ') else {
        return "unknown".to_owned();
    };
    let mut text = commit.to_owned();
    // An archive is not part of the program, and one experiment after another changes it.
    let sources = [":/", ":(top,exclude)docs/reproductions"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    if git(&[&status[..], &sources].concat()).is_none_or(|changes| !changes.is_empty()) {
        text += ", changed";
    }
    let built = std::env::current_exe()
        .and_then(fs::metadata)
        .and_then(|file| file.modified());
    let built = built
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    if built
        .zip(time.parse::<u64>().ok())
        .is_none_or(|(built, commit)| built.as_secs() < commit)
    {
        text += ", but the program is older";
    }
    text
}

fn now() -> String {
    utc(SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs())
}

fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or(0.0)
}

fn ticks() -> Ticks {
    let [stat, own] =
        ["/proc/stat", "/proc/self/stat"].map(|path| fs::read_to_string(path).unwrap_or_default());
    ticks_of(&stat, &own)
}

/// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; the
/// time of guests after it is part of user's and nice's. Of `/proc/self/stat`, it reads the fields
/// 14 to 17: user and system, of the process and of its ended children. The second field, in
/// brackets, is a name.
fn ticks_of(stat: &str, own: &str) -> Ticks {
    let line = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|field| field.parse().ok())
        .collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or(0);
    let after_name = own.rsplit_once(')').map_or("", |(_, after)| after);
    let own = after_name
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u64>().ok());
    let programs = field(0) + field(1) + field(2);
    Ticks {
        all: fields.iter().sum(),
        stolen: field(7),
        programs,
        own: own.sum(),
    }
}

/// Formats seconds since 1970 as a day and time. The day is Hinnant's `civil_from_days`.
fn utc(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        of_day / 3600,
        of_day / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_or_a_share_of_time_is_wrong() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400 + 3661), "2000-02-29 01:01 UTC");
        assert_eq!(utc(1_798_761_540), "2026-12-31 23:59 UTC");
        let own = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4000 15 16";
        let read = ticks_of("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1", own);
        assert_eq!(
            read,
            Ticks {
                all: 360,
                stolen: 80,
                programs: 60,
                own: 4123
            }
        );
        assert_eq!(ticks_of("", ""), Ticks::default());
        let mut provenance = Provenance::now();
        provenance.update(Duration::from_secs(70));
        assert!(provenance.seconds.is_some_and(|seconds| seconds >= 70));
        assert!((0.0..=100.0).contains(&provenance.steal_percent) && provenance.processors > 0);
    }

    /// Failure: an hour of timings beside a compiler counts.
    #[test]
    fn a_disturbed_run_is_trusted() {
        let run = |steal_percent, other_percent| Provenance {
            steal_percent,
            other_percent,
            ..Provenance::default()
        };
        assert_eq!(run(0.9, Some(4.9)).disturbance(), None);
        assert_eq!(
            run(0.2, None).disturbance(),
            None,
            "an archive from before it was recorded"
        );
        for (of, words) in [
            (run(1.1, Some(0.0)), "other machines took 1.1 %"),
            (run(0.0, Some(60.0)), "other programs"),
        ] {
            assert!(of.disturbance().unwrap().contains(words));
        }
        let before = ticks();
        let is_seen = (0..1_000_000).any(|_| ticks().own > before.own);
        assert!(is_seen, "the time of this process is not read");
    }

    #[test]
    fn a_command_cannot_be_typed_again() {
        let words = [
            "/usr/bin/larder",
            "reproduce",
            "filter",
            "--out",
            "my dir",
            "it's",
            "",
        ];
        assert_eq!(
            command(words.into_iter().map(str::to_owned)),
            "larder reproduce filter --out 'my dir' 'it'\\''s' ''"
        );
    }
}

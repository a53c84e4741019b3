//! What was read of a trace, and what was not.

use super::error::TraceError;
use larder_units::rounded::percent;

/// Bad lines that are shown; the others are counted.
const SHOWN_LINES: usize = 3;

/// What a format's reader has to say about a trace.
#[derive(Clone, Debug, Default)]
pub struct ReaderReport {
    /// The form of the trace, and the fields that are used: a line each.
    pub how: Vec<String>,
    /// Lines that are no requests of a cache, by reason, the most frequent first.
    pub left_out: Vec<(String, u64)>,
    /// Other remarks, a line each.
    pub notes: Vec<String>,
    /// What the reader took for granted although little says so, a line each, and how to say
    /// otherwise.
    pub guesses: Vec<String>,
    /// True for a log none of whose requests names its host.
    pub is_without_host: bool,
}

/// What was read of a trace so far.
#[derive(Clone, Debug, Default)]
pub struct TraceReport {
    /// What the format's reader says.
    pub reader: ReaderReport,
    /// Requests read.
    pub requests: u64,
    /// Bad lines, by reason, the most frequent first.
    pub skipped: Vec<(String, u64)>,
    /// The first bad lines, each with its file, its place and its problem.
    pub first_skipped: Vec<String>,
}

impl TraceReport {
    /// Returns the number of bad lines.
    pub fn bad_lines(&self) -> u64 {
        self.skipped.iter().map(|(_, lines)| lines).sum()
    }

    /// Returns the number of lines: requests, those left out, and bad ones.
    pub fn lines(&self) -> u64 {
        let left_out: u64 = self.reader.left_out.iter().map(|(_, lines)| lines).sum();
        self.requests + left_out + self.bad_lines()
    }

    /// Returns what was not read, and why, a line each: empty if all lines are requests.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let lines = self.lines();
        if !self.skipped.is_empty() {
            remarks.push(format!(
                "{} of {lines} lines are bad and were skipped: {}",
                self.bad_lines(),
                shares(&self.skipped, lines)
            ));
            remarks.extend(self.first_skipped.iter().map(|line| format!("  {line}")));
        }
        let left_out: u64 = self.reader.left_out.iter().map(|(_, lines)| lines).sum();
        if left_out > 0 {
            remarks.push(format!(
                "{left_out} of {lines} lines do not count: {}",
                shares(&self.reader.left_out, lines)
            ));
        }
        remarks.extend(self.reader.notes.iter().cloned());
        remarks
    }
}

fn shares(reasons: &[(String, u64)], lines: u64) -> String {
    let shown: Vec<String> = reasons
        .iter()
        .map(|(reason, some)| {
            let share = percent(*some as f64 / lines.max(1) as f64);
            format!("{some} ({share}) {reason}")
        })
        .collect();
    shown.join("; ")
}

/// The bad lines so far.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    reasons: Vec<(String, u64)>,
    first: Vec<String>,
    lines: u64,
}

impl Skipped {
    pub fn count(&mut self, error: &TraceError) {
        self.lines += 1;
        if self.first.len() < SHOWN_LINES {
            self.first.push(error.to_string());
        }
        let reason = error.problem().reason();
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, lines)) => *lines += 1,
            None => self.reasons.push((reason, 1)),
        }
    }

    pub fn lines(&self) -> u64 {
        self.lines
    }

    pub fn reasons(&self) -> Vec<(String, u64)> {
        let mut reasons = self.reasons.clone();
        reasons.sort_by_key(|(_, lines)| std::cmp::Reverse(*lines));
        reasons
    }

    pub fn first(&self) -> &[String] {
        &self.first
    }
}

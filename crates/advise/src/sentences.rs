//! The phrases and tables that the terminal, the page and the configuration share.

use crate::advice::Advice;
use crate::candidate::Candidate;
use crate::choice::{Goal, best_by_size};
use crate::gathering::Traffic;
use larder_replay::Unit;
use larder_units::rounded::{bytes, percent, span};

const DAY: f64 = 86_400.0;
/// The steps of memory whose worth is shown, in bytes: for large sites the second.
const STEPS: [(&str, f64); 2] = [("MiB", (1_u64 << 20) as f64), ("GiB", (1_u64 << 30) as f64)];

/// The footprint from which a site is large: then a MiB is worth too little to compare.
const LARGE: f64 = 4.0 * (1_u64 << 30) as f64;

/// The first line of an advice for a log that names no hosts.
const WITHOUT_HOST: &str = "The log names no hosts, so equal paths are one object. For several sites, read a file of each \
     with `host-from` filename, or a log with the host.";

/// A time in seconds, below which figures of a day are a guess.
const SHORT: f64 = 3_600.0;

/// The limits of an advice from a log.
const UPPER_BOUND: &str = "a log does not have most header fields, so this is an upper bound: responses that forbid storing, \
     cookies and lifetimes save less (`uncacheable`, `ttl`)";

impl Advice {
    /// Returns what is recommended and why, one sentence or two in each string.
    pub fn sentences(&self) -> Vec<String> {
        lines_of_choice(self)
    }
}

/// Returns the properties of the traffic, each with its name.
pub(crate) fn facts(traffic: &Traffic) -> Vec<(&'static str, String)> {
    let is_sized = traffic.unit == Unit::Bytes;
    let popularity = &traffic.looked_at.popularity;
    let mut facts = vec![("files", traffic.files.join(", "))];
    facts.extend(
        traffic
            .left_out
            .iter()
            .map(|line| ("left out", line.clone())),
    );
    facts.extend(limits(traffic).into_iter().map(|line| ("limits", line)));
    facts.extend(traffic.guesses.iter().map(|line| ("guessed", line.clone())));
    let asked = if is_sized {
        format!(", {}", bytes(traffic.requested_bytes))
    } else {
        String::new()
    };
    let time = if traffic.seconds > 0.0 {
        format!(" in {}", span(traffic.seconds))
    } else {
        String::new()
    };
    facts.push((
        "requests",
        format!("{}{time}{asked}", grouped(traffic.requests as f64)),
    ));
    let about = if traffic.sample < 1.0 { "about " } else { "" };
    let footprint = match (is_sized, traffic.footprint_error > 0.0) {
        (false, _) => ", without sizes: capacities count objects".to_owned(),
        (true, false) => format!(", {} in all (footprint)", bytes(traffic.footprint)),
        (true, true) => {
            format!(
                ", {} ± {} in all (footprint)",
                bytes(traffic.footprint),
                bytes(traffic.footprint_error)
            )
        }
    };
    facts.push((
        "objects",
        format!("{about}{}{footprint}", grouped(traffic.objects)),
    ));
    if traffic.overhead > 0 {
        let overhead = traffic.overhead;
        facts.push((
            "overhead",
            format!("{overhead} B for each object, for its key and header fields (`overhead`)"),
        ));
    }
    facts.push((
        "popularity",
        popularity.zipf.as_ref().map_or("no Zipf law".to_owned(), |fit| format!("about Zipf {:.2}", fit.exponent))
            + &format!(
                "; the top 1 % of the objects have {} of the requests; {} of the objects are requested once",
                percent(popularity.top_1_percent),
                percent(popularity.one_hit_wonders)
            ),
    ));
    if is_sized {
        let sizes = &traffic.looked_at.sizes;
        let of = |percent: u8| {
            sizes
                .percentiles
                .iter()
                .find(|p| p.percent == percent)
                .map_or(0.0, |p| p.objects as f64)
        };
        facts.push((
            "sizes",
            format!(
                "median {}, 90 % up to {}, mean {}",
                bytes(of(50)),
                bytes(of(90)),
                bytes(sizes.mean)
            ),
        ));
    }
    facts.push((
        "accuracy",
        if traffic.sample < 1.0 {
            format!(
                "one of {:.0} objects was looked at, and more of the large ones (`keep`); errors hold with 95 % of confidence",
                1.0 / traffic.sample
            )
        } else {
            "all requests were looked at: the figures are exact for this traffic".to_owned()
        },
    ));
    facts
}

/// Returns why the figures may not hold for the site.
fn limits(traffic: &Traffic) -> Vec<String> {
    let mut limits = Vec::new();
    if traffic.is_log {
        limits.push(UPPER_BOUND.to_owned());
    }
    if traffic.seconds > 0.0 && traffic.seconds < SHORT {
        limits.push(format!(
            "only {} were seen: a day may have other objects and more of them, so take a day or more before you trust this",
            span(traffic.seconds)
        ));
    }
    limits
}

/// Returns the hit ratios: a row for each size, a column for each policy, the head first.
pub(crate) fn ratios(advice: &Advice) -> Vec<Vec<String>> {
    let goal = advice.choice.goal;
    let mut policies: Vec<&str> = Vec::new();
    for candidate in &advice.candidates {
        if !policies.contains(&candidate.policy.as_str()) {
            policies.push(&candidate.policy);
        }
    }
    let head = std::iter::once("size".to_owned())
        .chain(policies.iter().map(|policy| (*policy).to_owned()));
    let mut rows = vec![head.collect::<Vec<_>>()];
    for best in best_by_size(&advice.candidates, goal) {
        let mut row = vec![size(best.capacity, advice)];
        for policy in &policies {
            let here = |candidate: &&Candidate| {
                candidate.policy == *policy && candidate.capacity == best.capacity
            };
            let cell = advice
                .candidates
                .iter()
                .find(here)
                .map(|candidate| ratio(goal, candidate));
            row.push(cell.unwrap_or_default() + if best.policy == *policy { " *" } else { "  " });
        }
        rows.push(row);
    }
    rows
}

/// Returns what each size saves with its best policy, the head first.
pub(crate) fn worth(advice: &Advice) -> Vec<Vec<String>> {
    let traffic = &advice.traffic;
    let per = if traffic.seconds > 0.0 {
        "a day"
    } else {
        "in all"
    };
    let amount = |amount: f64| traffic.in_seconds(amount, DAY).unwrap_or(amount);
    let requests = |candidate: &Candidate| {
        amount((1.0 - candidate.object_hit_ratio) * traffic.requests as f64)
    };
    let missed =
        |candidate: &Candidate| amount((1.0 - candidate.byte_hit_ratio) * traffic.requested_bytes);
    let is_sized = traffic.unit == Unit::Bytes;
    let (step, step_bytes) = STEPS[usize::from(traffic.footprint >= LARGE)];
    let mut head = vec![
        "size".to_owned(),
        "policy".to_owned(),
        format!("origin requests {per}"),
    ];
    if is_sized {
        head.extend([
            format!("origin bytes {per}"),
            format!("a {step} more saves"),
            "and".to_owned(),
        ]);
    }
    let best = best_by_size(&advice.candidates, advice.choice.goal);
    let mut rows = vec![head];
    for (place, candidate) in best.iter().enumerate() {
        let mut row = vec![
            size(candidate.capacity, advice),
            candidate.policy.clone(),
            grouped(requests(candidate)),
        ];
        if is_sized {
            row.push(bytes(missed(candidate)));
            let next = best.get(place + 1);
            let per_step = |of: &dyn Fn(&Candidate) -> f64, next: &Candidate| {
                ((of(candidate) - of(next))
                    / ((next.capacity - candidate.capacity) as f64 / step_bytes))
                    .max(0.0)
            };
            row.push(next.map_or(String::new(), |next| {
                format!("{} requests", grouped(per_step(&requests, next)))
            }));
            row.push(next.map_or(String::new(), |next| bytes(per_step(&missed, next))));
        }
        rows.push(row);
    }
    rows
}

/// Returns the advice in sentences.
pub(crate) fn lines_of_choice(advice: &Advice) -> Vec<String> {
    let choice = &advice.choice;
    let chosen = &choice.chosen;
    let least = if chosen.error_is_least {
        "more than "
    } else {
        ""
    };
    let with_error = |ratio: f64, error: f64| {
        if error > 0.0 {
            format!("{} ± {least}{}", percent(ratio), percent(error))
        } else {
            percent(ratio)
        }
    };
    let requests = with_error(chosen.object_hit_ratio, chosen.object_error);
    let mut line = format!(
        "{} with {}: {requests} of the requests hit",
        chosen.policy,
        size(chosen.capacity, advice)
    );
    if advice.traffic.unit == Unit::Bytes {
        line += &format!(
            ", {} of the bytes",
            with_error(chosen.byte_hit_ratio, chosen.byte_error)
        );
    }
    let mut lines = Vec::new();
    if advice.traffic.is_without_host {
        lines.push(WITHOUT_HOST.to_owned());
    }
    lines.extend([line, format!("Why this size: {}.", choice.reason)]);
    let missed = |candidate: &Candidate| 1.0 - choice.goal.ratio(candidate);
    let saved = |lru: &Candidate| 1.0 - missed(chosen) / missed(lru).max(f64::MIN_POSITIVE);
    if let Some((lru, saved)) = choice
        .lru
        .as_ref()
        .map(|lru| (lru, saved(lru)))
        .filter(|(lru, saved)| *saved >= 0.001 && is_certain(choice.goal, chosen, lru))
    {
        let what = if choice.goal == Goal::Requests {
            "requests"
        } else {
            "bytes"
        };
        lines.push(format!(
            "LRU of this size: {} of the {what} hit; {} has {} fewer {what} from the origin.",
            percent(choice.goal.ratio(lru)),
            chosen.policy,
            percent(saved)
        ));
    }
    if let (Some(cost), Some(without)) = (choice.cost_per_month, choice.cost_without_cache) {
        lines.push(format!(
            "Memory and egress cost {cost:.2} a month; without a cache, egress costs {without:.2}."
        ));
    }
    lines
}

/// Returns true if a candidate is better than another by more than the error of the difference. The
/// errors of both are taken as independent. They come from the same sample, so it is less.
fn is_certain(goal: Goal, better: &Candidate, than: &Candidate) -> bool {
    let gain = goal.ratio(better) - goal.ratio(than);
    gain > goal.error(better).hypot(goal.error(than))
}

/// Returns a capacity as text.
pub(crate) fn size(capacity: u64, advice: &Advice) -> String {
    match advice.traffic.unit {
        Unit::Bytes => bytes(capacity as f64),
        Unit::Objects => format!("{} objects", grouped(capacity as f64)),
    }
}

fn ratio(goal: Goal, candidate: &Candidate) -> String {
    match goal.error(candidate) > 0.0 {
        true if candidate.error_is_least => format!(
            "{:.3} ± >{:.3}",
            goal.ratio(candidate),
            goal.error(candidate)
        ),
        true => format!(
            "{:.3} ± {:.3}",
            goal.ratio(candidate),
            goal.error(candidate)
        ),
        false => format!("{:.3}", goal.ratio(candidate)),
    }
}

/// Returns a rounded number with commas between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let commas = digits.char_indices().flat_map(|(at, digit)| {
        let comma = (at > 0 && (digits.len() - at).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    });
    commas.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: advice from a difference that may be none.
    #[test]
    fn a_difference_within_its_error_is_advice() {
        let candidate = |object_hit_ratio, object_error| Candidate {
            policy: "lru".to_owned(),
            capacity: 1,
            object_hit_ratio,
            object_error,
            byte_hit_ratio: 0.5,
            byte_error: 0.0,
            error_is_least: false,
        };
        let is_certain = |gain, error| {
            is_certain(
                Goal::Requests,
                &candidate(0.5 + gain, error),
                &candidate(0.5, error),
            )
        };
        assert!(is_certain(0.01, 0.0) && is_certain(0.03, 0.02));
        assert!(!is_certain(0.02, 0.02) && !is_certain(0.0, 0.0) && !is_certain(-0.1, 0.0));
    }

    #[test]
    fn thousands_are_not_grouped() {
        for (number, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (1_000.0, "1,000"),
            (12_345_678.9, "12,345,679"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}

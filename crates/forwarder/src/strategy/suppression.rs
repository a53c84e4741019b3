//! Suppression of repeated Interests: NFD's `RetxSuppressionExponential`.
//!
//! Within an interval after an Interest was forwarded, a repetition of it waits; the interval starts at `initial` and grows by `multiplier` with
//! each repetition that is forwarded, up to `max`. The interval is an Interest's, in its PIT entry; O(upstreams asked).

use super::{Decision, Parameters};
use std::time::Duration;

/// The parameters that best-route, multicast, asf and random share, with NFD's defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suppression {
    initial: Duration,
    max: Duration,
    multiplier: u32,
}

impl Suppression {
    pub(super) fn new(parameters: &mut Parameters<'_>) -> Result<Self, String> {
        let initial = parameters.millis("retx-suppression-initial", Duration::from_millis(10))?;
        let max = parameters.millis("retx-suppression-max", Duration::from_millis(250))?;
        let multiplier = parameters.number("retx-suppression-multiplier", 2)?;
        match multiplier.try_into() {
            Ok(multiplier @ 1..=1000) if initial <= max => Ok(Suppression { initial, max, multiplier }),
            Ok(1..=1000) => Err("retx-suppression-max is less than retx-suppression-initial".to_owned()),
            _ => Err("retx-suppression-multiplier is 1 to 1000".to_owned()),
        }
    }

    /// Whether this Interest repeats one that was forwarded so lately that it must wait.
    pub(super) fn suppresses(&self, decision: &mut Decision<'_>) -> bool {
        let now = decision.now;
        let entry = &mut *decision.entry;
        let last = entry.out_records.iter().filter(|out| out.expires > now).map(|out| out.sent).max();
        let Some(last) = last else {
            entry.suppression = self.initial;
            return false;
        };
        if now.since(last) < entry.suppression {
            return true;
        }
        entry.suppression = entry.suppression.saturating_mul(self.multiplier).min(self.max);
        false
    }
}

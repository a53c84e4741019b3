//! The budget of retries: a bucket of tokens, as in Finagle. Each request adds a share of a token,
//! each second adds [`limits::RETRIES_PER_SECOND`], and each retry takes one. So an origin that
//! fails gets at most that share more requests than clients send, instead of twice as many.

use crate::base::limits;
use larder_units::Time;
use std::time::Duration;

/// Thousandths of a token in a token.
const TOKEN: u64 = 1000;

/// The time in which a thousandth is added.
const NANOS: u64 = 1_000_000_000 / (limits::RETRIES_PER_SECOND * TOKEN);

/// The tokens for retries of one origin.
#[derive(Clone, Debug)]
pub(super) struct RetryBudget {
    /// Thousandths that each request adds.
    per_request: u64,
    /// Thousandths of tokens.
    balance: u64,
    /// The time up to which seconds were added.
    filled: Time,
}

impl RetryBudget {
    /// A share of 0 allows no retry, not even those of the floor.
    pub(super) fn new(percent: u32, now: Time) -> RetryBudget {
        let per_request = u64::from(percent) * TOKEN / 100;
        let balance = if per_request == 0 {
            0
        } else {
            limits::RETRIES_SAVED * TOKEN
        };
        RetryBudget {
            per_request,
            balance,
            filled: now,
        }
    }

    /// Records a request that is no retry.
    pub(super) fn on_request(&mut self, now: Time) {
        self.add(self.per_request);
        self.fill(now);
    }

    /// Returns true if a retry is allowed.
    pub(super) fn allows(&mut self, now: Time) -> bool {
        self.fill(now);
        self.balance >= TOKEN
    }

    /// Records a retry.
    pub(super) fn on_retry(&mut self) {
        self.balance = self.balance.saturating_sub(TOKEN);
    }

    fn fill(&mut self, now: Time) {
        if self.per_request == 0 {
            return;
        }
        let added = now.since(self.filled).as_nanos() / u128::from(NANOS);
        let added = u64::try_from(added).unwrap_or(u64::MAX);
        // The rest of a thousandth is counted the next time.
        self.filled += Duration::from_nanos(added.saturating_mul(NANOS));
        self.add(added);
    }

    fn add(&mut self, thousandths: u64) {
        self.balance = self
            .balance
            .saturating_add(thousandths)
            .min(limits::RETRIES_SAVED * TOKEN);
    }
}

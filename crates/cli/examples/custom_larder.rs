//! The complete program `larder` with a cache policy, a forwarding strategy and a trace format of
//! its own. Every command and every configuration file knows them by their names:
//!
//! ```sh
//! cargo run -p larder-cli --example custom_larder -- policies lifo
//! cargo run -p larder-cli --example custom_larder -- ctl strategy set /videos costliest
//! ```
//!
//! In a crate of your own, this file is `src/main.rs`, and `larder-cli`, `larder-forwarder`,
//! `larder-policy`, `larder-replay` and `larder-units` are dependencies.

use larder_cli::Registries;
use larder_forwarder::strategy::{Decision, Strategy, StrategyEntry, Suppression};
use larder_policy::{Build, Evict, Policy, PolicyEntry, Request, Slot};
use larder_replay::{Access, FormatEntry, Lines, Open, ReadError, Requests};
use larder_units::Time;
use std::error::Error;
use std::process::ExitCode;

/// Evicts the object that was stored last.
#[derive(Default)]
struct Lifo {
    /// The stored slots; the next victim is the last one.
    slots: Vec<Slot>,
}

const LIFO: PolicyEntry = PolicyEntry {
    name: "lifo",
    citation: "this example",
    summary: "evicts the object that was stored last",
    parameters: &[],
    complexity: "O(1), O(n) for a removal",
    bytes_an_object: 4,
    needs_path: false,
    build: Build::Eviction(|_, _| Ok(Box::<Lifo>::default())),
};

impl Policy for Lifo {}

impl Evict for Lifo {
    fn on_hit(&mut self, _: Slot, _: &Request) {}

    fn on_insert(&mut self, slot: Slot, _: &Request) {
        self.slots.push(slot);
    }

    fn victim(&mut self, _: Option<&Request>) -> Option<Slot> {
        self.slots.pop()
    }

    fn peek(&mut self, after: Option<Slot>) -> Option<Slot> {
        let mut order = self.slots.iter().rev().copied();
        match after {
            None => order.next(),
            Some(after) => order.skip_while(|slot| *slot != after).nth(1),
        }
    }

    fn on_remove(&mut self, slot: Slot) {
        self.slots.retain(|other| *other != slot);
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.slots.len())
    }
}

/// Sends each Interest to the next hop with the highest cost.
struct Costliest {
    suppression: Suppression,
}

const COSTLIEST: StrategyEntry = StrategyEntry {
    name: "costliest",
    version: 1,
    summary: "sends an Interest to the next hop with the highest cost",
    parameters: &[],
    build: |parameters, _| {
        Ok(Box::new(Costliest {
            suppression: Suppression::new(parameters)?,
        }))
    },
};

impl Strategy for Costliest {
    fn on_interest(&mut self, decision: &mut Decision<'_>) {
        if self.suppression.suppresses(decision) {
            return;
        }
        match decision.next_hops().last() {
            Some(hop) => decision.send(hop.face),
            None => decision.refuse_if_all_refused(),
        }
    }

    fn on_nack(&mut self, decision: &mut Decision<'_>) {
        decision.refuse_if_all_refused();
    }
}

/// Reads lines with the number of an object, each of one byte.
struct Ids {
    lines: Lines,
}

const IDS: FormatEntry = FormatEntry {
    name: "ids",
    summary: "lines with the number of an object",
    suffixes: &[".ids"],
    detect: |_, _| false,
    open: Open::Bytes(|bytes| {
        Box::new(Ids {
            lines: Lines::new(bytes),
        })
    }),
};

impl Requests for Ids {
    fn next(&mut self) -> Result<Option<Access>, ReadError> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        match std::str::from_utf8(line)
            .ok()
            .and_then(|line| line.parse().ok())
        {
            Some(id) => Ok(Some(Access {
                id,
                size: 1,
                now: Time::ZERO,
            })),
            None => Err(ReadError::new(
                self.lines.place(),
                "a whole number expected",
            )),
        }
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut registries = Registries::builtin();
    registries.policies = registries.policies.register(&LIFO)?;
    registries.strategies.register(COSTLIEST)?;
    registries.formats = registries.formats.register(&IDS)?;
    Ok(larder_cli::run(registries))
}

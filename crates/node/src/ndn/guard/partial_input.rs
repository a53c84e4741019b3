//! One memory budget for all input that is not yet a whole packet: packets cut off on streams,
//! WebSocket messages and handshakes, and NDNLPv2 fragments in reassembly.
//!
//! Every shard publishes how much it holds. When the sum exceeds the budget, the shard that holds
//! the most gives up its largest holdings until the sum is at 7/8 of the budget, so that it seldom
//! sorts its holders. So a holder of a few bytes loses nothing while others hold much. An honest
//! packet is complete within milliseconds; a hostile one waits. This module reads no clock and no
//! socket.
//!
//! Between the moment at which one shard exceeds the budget and the moment at which another one
//! gives up, the sum exceeds the budget by the input of that time.

use larder_forwarder::FaceId;
use larder_units::Time;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that all shards hold together, and their limit.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) most: AtomicUsize,
    /// Bytes, by shard.
    pub(crate) held: Box<[AtomicUsize]>,
}

/// The action that the budget demands of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything fits.
    Fits,
    /// This shard must give up so many bytes.
    GiveUp(usize),
    /// The shard with this number holds more, and has to check.
    Wake(usize),
}

impl Budget {
    pub(crate) fn new(most: usize, shards: usize) -> Self {
        Budget {
            most: AtomicUsize::new(most),
            held: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    pub(crate) fn verdict(&self, shard: usize) -> Verdict {
        let held = |shard: &AtomicUsize| shard.load(Ordering::Relaxed);
        let sum: usize = self.held.iter().map(held).sum();
        let limit = held(&self.most);
        if sum <= limit {
            return Verdict::Fits;
        }
        let own = held(&self.held[shard]);
        let (other, most) = self
            .held
            .iter()
            .map(held)
            .enumerate()
            .max_by_key(|(_, held)| *held)
            .unwrap_or((shard, own));
        if own >= most {
            // At most half, because another shard may hold the most after that.
            Verdict::GiveUp((sum - limit / 8 * 7).min(own.div_ceil(2)))
        } else {
            Verdict::Wake(other)
        }
    }
}

/// One shard's part of the budget.
#[derive(Debug)]
pub(crate) struct PartialInput {
    pub(crate) budget: Arc<Budget>,
    pub(crate) shard: usize,
    pub(crate) connections: usize,
    pub(crate) fragments: usize,
}

impl PartialInput {
    pub(crate) fn new(budget: Arc<Budget>, shard: usize) -> Self {
        PartialInput {
            budget,
            shard,
            connections: 0,
            fragments: 0,
        }
    }

    /// Changes the budget of all shards.
    pub(crate) fn set_budget(&self, most: usize) -> Verdict {
        self.budget.most.store(most, Ordering::Relaxed);
        self.verdict()
    }

    /// Returns the bytes that this shard holds.
    pub(crate) fn held(&self) -> usize {
        self.connections + self.fragments
    }

    /// Records that a connection holds `after` bytes instead of `before`.
    #[inline]
    pub(crate) fn connection_changed(&mut self, before: usize, after: usize) -> Verdict {
        if before == after {
            Verdict::Fits
        } else {
            self.connections = self.connections - before + after;
            self.publish()
        }
    }

    /// Records the bytes in reassembly.
    #[inline]
    pub(crate) fn fragments_are(&mut self, bytes: usize) -> Verdict {
        if self.fragments == bytes {
            Verdict::Fits
        } else {
            self.fragments = bytes;
            self.publish()
        }
    }

    /// Returns the action of this shard, also when another shard has found the budget full.
    pub(crate) fn verdict(&self) -> Verdict {
        self.budget.verdict(self.shard)
    }

    pub(crate) fn publish(&self) -> Verdict {
        self.budget.held[self.shard].store(self.held(), Ordering::Relaxed);
        self.verdict()
    }
}

/// Something that holds partial input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder<T> {
    pub(crate) id: T,
    pub(crate) bytes: usize,
    /// The time at which its oldest packet began.
    pub(crate) since: Time,
}

/// Returns the holders that have to give up so that `bytes` become free. The largest come first; of
/// those whose size is the same power of two, the oldest, because the rest of an honest packet is
/// about to arrive.
pub(crate) fn victims<T>(mut holders: Vec<Holder<T>>, bytes: usize) -> impl Iterator<Item = T> {
    holders.sort_unstable_by_key(|holder| (Reverse(holder.bytes.checked_ilog2()), holder.since));
    let mut freed = 0;
    holders
        .into_iter()
        .take_while(move |holder| {
            let goes = freed < bytes;
            freed += holder.bytes;
            goes
        })
        .map(|holder| holder.id)
}

/// The part of a face that holds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Connection(FaceId),
    Reassembly(FaceId),
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;
    use std::collections::BTreeMap;

    /// The bytes of each connection, and since when.
    type Held = BTreeMap<u64, (usize, Time)>;

    /// Some shards with connections that grow and end at random. A shard that has to give up does
    /// so at once, or when it is woken, before the next step.
    struct World {
        shards: Vec<(PartialInput, Held)>,
        given_up: Vec<(usize, u64)>,
    }

    impl World {
        fn new(most: usize, shards: usize) -> World {
            let budget = Arc::new(Budget::new(most, shards));
            let part = |shard| (PartialInput::new(budget.clone(), shard), Held::new());
            World {
                shards: (0..shards).map(part).collect(),
                given_up: Vec::new(),
            }
        }

        fn set(&mut self, now: Time, shard: usize, id: u64, bytes: usize) {
            let (part, held) = &mut self.shards[shard];
            let (before, since) = held.remove(&id).unwrap_or((0, now));
            if bytes > 0 {
                held.insert(id, (bytes, since));
            }
            let verdict = part.connection_changed(before, bytes);
            self.obey(shard, verdict);
        }

        fn obey(&mut self, shard: usize, verdict: Verdict) {
            match verdict {
                Verdict::Fits => {}
                Verdict::Wake(other) => {
                    let verdict = self.shards[other].0.verdict();
                    assert!(
                        !matches!(verdict, Verdict::Wake(_)),
                        "the largest has nobody to wake"
                    );
                    self.obey(other, verdict);
                }
                Verdict::GiveUp(bytes) => {
                    let (part, held) = &mut self.shards[shard];
                    let holder = |(id, (bytes, since)): (&u64, &(usize, Time))| Holder {
                        id: *id,
                        bytes: *bytes,
                        since: *since,
                    };
                    let gone: Vec<u64> =
                        victims(held.iter().map(holder).collect(), bytes).collect();
                    let least = gone.iter().map(|id| held[id].0).min().unwrap();
                    for id in gone {
                        let (bytes, _) = held.remove(&id).unwrap();
                        part.connection_changed(bytes, 0);
                        self.given_up.push((shard, id));
                    }
                    let largest_left = held.values().map(|(bytes, _)| *bytes).max().unwrap_or(0);
                    assert!(
                        largest_left < least * 2,
                        "{largest_left} stays and {least} went"
                    );
                    assert_eq!(
                        part.held(),
                        held.values().map(|(bytes, _)| *bytes).sum::<usize>()
                    );
                    let verdict = part.verdict();
                    self.obey(shard, verdict);
                }
            }
        }

        fn sum(&self) -> usize {
            self.shards.iter().map(|(part, _)| part.held()).sum()
        }
    }

    #[test]
    fn partial_input_exceeds_the_budget_or_small_holders_lose_theirs() {
        for seed in 0..200 {
            let mut random = Streams::new(seed).stream("partial input");
            let most = 30_000 + random.below(80_000) as usize;
            let shards = 1 + random.below(4) as usize;
            let mut world = World::new(most, shards);
            for step in 0..2000 {
                let (shard, id) = (random.below(shards as u64) as usize, random.below(100));
                // Every tenth connection is honest: it holds little.
                let bytes = random.below(if id % 10 == 0 { 200 } else { 8000 }) as usize;
                world.set(Time::from_millis(step), shard, id, bytes);
                assert!(
                    world.sum() <= most,
                    "seed {seed}, step {step}: {} of {most}",
                    world.sum()
                );
            }
            assert!(most > 60_000 || !world.given_up.is_empty(), "seed {seed}");
            let honest = world.given_up.iter().filter(|(_, id)| id % 10 == 0).count();
            assert_eq!(honest, 0, "seed {seed}: an honest holder lost its packet");
        }
    }

    #[test]
    fn among_equals_the_oldest_goes_first() {
        let holder = |id, bytes, since| Holder {
            id,
            bytes,
            since: Time::from_millis(since),
        };
        let holders = vec![
            holder(1, 5000, 30),
            holder(2, 8000, 20),
            holder(3, 8100, 10),
            holder(4, 20_000, 40),
            holder(5, 4100, 5),
        ];
        assert_eq!(victims(holders.clone(), 20_001).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(victims(holders, 24_101).collect::<Vec<_>>(), [4, 5, 3]);
    }
}

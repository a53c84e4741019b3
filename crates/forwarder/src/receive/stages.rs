//! The cost of each stage of a batch, for measurements.
//!
//! The stages are those of [`crate::Forwarder::on_packets`]. A run of packets of one kind passes
//! each stage together, so the clock is read once per stage and run. They follow the blocks B1 to
//! B13 of Takemasa, Koizumi and Hasegawa, Lightweight cache admission algorithm for fast NDN
//! software routers, Journal of Information Processing 27, 2019, tables 1 and 2.

/// The stages, in the order in which packets pass them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// B1 and B8: frames are decoded and their names hashed; the indexes are prefetched.
    Decode,
    /// The rest is prefetched, and the hashes of all prefixes computed, which is a part of B6.
    Prefetch,
    /// Interests: scope, the pending Interest of the name, duplicate nonces.
    PitLookup,
    /// B3 and B2: Content Store lookup; the policy counts the request.
    StoreLookup,
    /// B5: the pending Interest, its consumer and timer.
    PitInsert,
    /// B6: the next hops.
    FibLookup,
    /// B4, B7 and B11: the strategy decides, and the Interest, or stored Data, goes to the host.
    Answer,
    /// B9: the consumers that wait for a Data.
    PitMatch,
    /// B13, B12 and B10: the admission's decision, the victim, and the Data into the Content Store.
    StoreInsert,
    /// B11: the Data goes to the host.
    DataSend,
    /// B9: the end of the wait.
    PitDelete,
}

/// The number of stages.
pub const STAGES: usize = Stage::PitDelete as usize + 1;

/// The cost of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageProfile {
    /// Ticks of the clock in each stage.
    pub ticks: [u64; STAGES],
    /// Packets that passed each stage.
    pub packets: [u32; STAGES],
}

/// A clock and what it has measured, or nothing.
pub(crate) struct Meter<'a>(pub(crate) Option<Measurement<'a>>);

pub(crate) struct Measurement<'a> {
    clock: &'a mut dyn FnMut() -> u64,
    profile: StageProfile,
    /// The last reading.
    since: u64,
}

impl<'a> Meter<'a> {
    /// Measures with this clock.
    pub(crate) fn new(clock: &'a mut dyn FnMut() -> u64) -> Meter<'a> {
        Meter(Some(Measurement {
            clock,
            profile: StageProfile::default(),
            since: 0,
        }))
    }

    /// Returns what was measured.
    pub(crate) fn profile(self) -> StageProfile {
        self.0
            .map_or_else(StageProfile::default, |measurement| measurement.profile)
    }

    /// Starts to measure here: what came before belongs to no stage.
    #[inline]
    pub(super) fn start(&mut self) {
        if let Some(Measurement { clock, since, .. }) = &mut self.0 {
            *since = clock();
        }
    }

    /// Ends a stage that `packets` have passed. The next one begins.
    #[inline]
    pub(super) fn end(&mut self, stage: Stage, packets: usize) {
        if let Some(Measurement {
            clock,
            profile,
            since,
        }) = &mut self.0
        {
            let now = clock();
            profile.ticks[stage as usize] += now.saturating_sub(*since);
            profile.packets[stage as usize] += packets as u32;
            *since = now;
        }
    }
}

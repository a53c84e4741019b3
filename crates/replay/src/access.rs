//! One request of a trace.

use larder_units::Time;

/// One request of a trace: who is asked for, how large it is, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The object's number in the trace, or a hash of its name.
    pub id: u64,
    /// Bytes; 1 in traces without sizes.
    pub size: u64,
    /// Since the trace's own start of time; zero in traces without times.
    pub now: Time,
}

//! Bans: removals by rule. The log keeps them in order among its records, and its owner interprets
//! them.
//!
//! A removal by key only needs the index. The removal of "everything with this tag" would have to
//! read the whole disk. Instead the rule is appended as a ban. Each older record is checked against
//! it when it is read, or when its region is reclaimed (Varnish's bans are the same idea). A
//! rewritten record has been checked and is newer than every ban, so a ban's own region can be
//! reclaimed like any other.

/// The owner's table of its marks. Positions are the log's order: a mark applies to the records
/// with lower positions than its own.
pub trait Bans {
    /// Adds a mark that was appended, or found at a restart, where they come in order.
    fn add(&mut self, position: u64, ban: &[u8]);

    /// Returns the effect of the bans on a record.
    fn verdict(&self, position: u64, key: &[u8], value: &[u8]) -> BanVerdict;

    /// Reports that no record is older than this position any more.
    fn retire(&mut self, before: u64);

    /// Reports that there is no record any more, so all marks may be forgotten.
    fn clear(&mut self);
}

/// The effect of its owner's bans on a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BanVerdict {
    /// No ban applies to it.
    Untouched,
    /// It may only be used with care, such as a response that must be validated. Reclaiming drops
    /// it.
    Expired,
    /// The record is removed.
    Gone,
}

/// An owner without marks.
impl Bans for () {
    fn add(&mut self, _: u64, _: &[u8]) {}

    fn verdict(&self, _: u64, _: &[u8], _: &[u8]) -> BanVerdict {
        BanVerdict::Untouched
    }

    fn retire(&mut self, _: u64) {}

    fn clear(&mut self) {}
}

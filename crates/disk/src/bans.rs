//! Bans: removals by rule, which the log keeps in order among its records and its owner
//! understands.
//!
//! A removal by key needs the index alone. "Everything with this tag" would have to read the whole
//! disk; instead the rule is appended as a mark, and each older record is judged by it when it is
//! read, or when its region is reclaimed (Varnish's bans are the same idea). What is rewritten has
//! been judged and is younger than every mark, so a mark's own region can go like any other.

/// The owner's view of its marks. Positions are the log's order: a record is subject to the marks
/// with higher positions than its own.
pub trait Bans {
    /// A mark was appended, or found at a restart, where they come in order.
    fn add(&mut self, position: u64, ban: &[u8]);

    /// What the marks say of a record.
    fn verdict(&self, position: u64, key: &[u8], value: &[u8]) -> BanVerdict;

    /// No record is older than this any more.
    fn retire(&mut self, before: u64);

    /// There is no record any more: all may be forgotten.
    fn clear(&mut self);
}

/// What became of a record by its owner's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BanVerdict {
    /// None concerns it.
    Untouched,
    /// It may be used with care only, such as a response that has to be validated. Reclaiming drops
    /// it.
    Expired,
    /// It is removed.
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

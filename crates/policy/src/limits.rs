//! Every limit of this crate, each with its reason.

/// Bytes of a spec's text. The longest sensible pipeline is under 200; a configuration field must not make the parser's errors unreadable.
pub const MAX_SPEC_BYTES: usize = 512;

/// Stages of one spec. Each admission stage costs a virtual call a request; more than a few have no published use.
pub const MAX_STAGES: usize = 8;

/// Objects of one engine: slots are `u32` and the last value marks the end of a list.
pub const MAX_OBJECTS: usize = u32::MAX as usize - 1;

//! Refused commands.

/// Status code and text of a ControlResponse without a body.
pub(crate) type Refusal = (u64, String);

//! The rules of the RFCs, each in one file: functions and values without a store.

pub(crate) mod cache_status;
pub(crate) mod coding;
pub(crate) mod conditional;
pub(crate) mod date;
pub(crate) mod directives;
pub(crate) mod fields;
pub(crate) mod framing;
pub(crate) mod freshness;
pub(crate) mod key;
pub(crate) mod multipart;
pub(crate) mod overrides;
pub(crate) mod range;
pub(crate) mod representation;
pub(crate) mod route;
pub(crate) mod selection;
pub(crate) mod sharing;
pub(crate) mod storability;
pub(crate) mod targeted;
pub(crate) mod vary;

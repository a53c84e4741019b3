//! The filter between the store and clients: the content coding of responses. The codings are those
//! of `larder-content-coding`; the rules are in `larder_http` ([`larder_http::Compression`]).

pub(crate) mod asked_coding;
pub(crate) mod coded_body;
pub(crate) mod encoder_places;
pub(crate) mod form_maker;

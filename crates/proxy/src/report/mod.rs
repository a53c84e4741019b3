//! Reports of exchanges: figures, and records for the access log.

pub(crate) mod exchange_figures;
pub(crate) mod heavy_hitters;
pub(crate) mod observer;
pub(crate) mod observers;
pub(crate) mod top_urls;

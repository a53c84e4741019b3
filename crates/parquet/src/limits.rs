//! Every limit of this crate, each with its reason.

/// Rows that a reader decodes at a time: 192 KiB of requests, which fit into the second-level
/// cache. Larger batches are not faster.
pub const BATCH_ROWS: usize = 1 << 13;

/// Rows of a row group that is written: 24 MiB of memory. Readers work in parallel by row groups of
/// about this size (pyarrow and DuckDB write as many).
pub const ROW_GROUP_ROWS: usize = 1 << 20;

//! Traces as tables: a line or a JSON object for each request.

mod column_names;
pub(super) mod columns;
mod header;
pub(super) mod json_lines;
pub(super) mod known;
mod layout;
pub(super) mod twitter;

pub use column_names::{ColumnNames, ColumnNamesError, ColumnPlaces};

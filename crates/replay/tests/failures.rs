//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod curve_is_off;
mod figures_changed;
mod json_lines_are_misread;
mod logs_are_misread;
mod logs_written_are_others;
mod trace_changes_on_the_way;
mod trace_is_misread;

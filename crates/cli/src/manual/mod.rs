//! What the program says of its own command line: completions for shells, manual pages, and pages
//! of the reference in docs/.

pub mod reference;
pub mod shell_files;

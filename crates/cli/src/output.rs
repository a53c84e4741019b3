//! Lines on standard output.

use std::fmt;
use std::io::{self, Write};

/// Prints a line to standard output, as `println!` does, but without its panic.
macro_rules! line {
    ($($text:tt)*) => {
        $crate::output::print_line(format_args!($($text)*))
    };
}
pub(crate) use line;

/// Prints a line; see [`line!`]. A full disk is a failure; for a closed pipe see [`end_if_unread`].
pub fn print_line(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) else { return };
    end_if_unread(&error);
    eprintln!("larder: standard output: {}", larder_units::system_message(&error));
    std::process::exit(1);
}

/// Ends the command with success if the reader of standard output, such as `head`, has closed it.
pub fn end_if_unread(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}

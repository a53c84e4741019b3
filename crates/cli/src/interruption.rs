//! Signals during long work. The command reports its progress in one line before it ends.

use crate::failure::Failure;
use crate::output::error_line;
use crate::progress::Bar;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Calls `on_signal` at each SIGINT and SIGTERM from now on, in its own thread.
///
/// # Errors
/// If signals cannot be caught.
pub fn watch(on_signal: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let failed = |error| Failure::runtime(format!("signals cannot be caught: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let watch = std::thread::Builder::new().name("signals".to_owned());
    watch
        .spawn(move || signals.forever().for_each(|_| on_signal()))
        .map(drop)
        .map_err(failed)
}

/// At a signal, removes the temporary file `part` of `name` and ends the program.
///
/// # Errors
/// If signals cannot be caught.
pub fn give_up(part: PathBuf, name: String) -> Result<(), Failure> {
    watch(move || {
        // The file is already gone if the work has just ended.
        let _ = std::fs::remove_file(&part);
        if std::io::stderr().is_terminal() {
            // The line starts below the bar.
            error_line!("");
        }
        exit(&format!("{name} is not written"))
    })
}

/// Ends the program and reports `what` was reached, without waiting for other threads. The rows
/// that they keep are whole lines, and readers ignore a line that is cut off.
pub fn end(bar: &Bar, what: &str) -> ! {
    bar.clear();
    exit(what)
}

fn exit(what: &str) -> ! {
    let Failure { message, code } = Failure::interrupted(what);
    error_line!("larder: {message}");
    std::process::exit(code.into())
}

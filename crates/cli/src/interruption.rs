//! Signals to long work: it says in a line how far it came, where it would have ended without a
//! word.

use crate::failure::Failure;
use crate::progress::Bar;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Calls `on_signal` at each SIGINT and SIGTERM from now on, on a thread of its own.
///
/// # Errors
/// Where signals cannot be caught.
pub fn watch(on_signal: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let failed = |error| Failure::runtime(format!("signals cannot be caught: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let watch = std::thread::Builder::new().name("signals".to_owned());
    watch.spawn(move || signals.forever().for_each(|_| on_signal())).map(drop).map_err(failed)
}

/// Has a signal remove the temporary file `part` and end the program, since `name` is not whole.
///
/// # Errors
/// Where signals cannot be caught.
pub fn give_up(part: PathBuf, name: String) -> Result<(), Failure> {
    watch(move || {
        // It is gone where the work ended at this moment.
        let _ = std::fs::remove_file(&part);
        if std::io::stderr().is_terminal() {
            // Below the bar.
            eprintln!();
        }
        exit(&format!("{name} is not written"))
    })
}

/// Ends the program, which is as far as `what`, whatever its other threads do: what they keep is
/// written in whole lines, or cut off by who reads it.
pub fn end(bar: &Bar, what: &str) -> ! {
    bar.clear();
    exit(what)
}

fn exit(what: &str) -> ! {
    let Failure { message, code } = Failure::interrupted(what);
    eprintln!("larder: {message}");
    std::process::exit(code.into())
}

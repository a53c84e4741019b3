//! A trace as an argument: a path, or `-` for standard input.

use crate::failure::Failure;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of standard input in messages and tables.
const STANDARD_INPUT: &str = "standard input";

/// Returns true if the trace is standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the path for a message.
pub fn shown(path: &Path) -> String {
    if is_standard_input(path) {
        STANDARD_INPUT.to_owned()
    } else {
        path.display().to_string()
    }
}

/// Returns the file's name without its directory.
pub fn name(path: &Path) -> String {
    if is_standard_input(path) {
        return STANDARD_INPUT.to_owned();
    }
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns true if the trace is a regular file, so it can be read several times.
pub fn is_file(path: &Path) -> bool {
    !is_standard_input(path) && path.is_file()
}

/// Returns the number of bytes of the file, or 1 if it is not known.
pub fn units(path: &Path) -> f64 {
    let length = path
        .metadata()
        .map(|file| file.len())
        .ok()
        .filter(|_| !is_standard_input(path));
    length.map_or(1, |length| length.max(1)) as f64
}

/// Checks that the trace can be read twice, as `reason` needs.
///
/// # Errors
/// If it is standard input or a pipe. `remedy` then says what to give instead.
pub fn check_read_twice(path: &Path, reason: &str, remedy: &str) -> Result<(), Failure> {
    let is_pipe = path
        .metadata()
        .is_ok_and(|file| !file.is_file() && !file.is_dir());
    if !is_standard_input(path) && !is_pipe {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: a pipe is read once, {reason} reads twice; {remedy}",
        shown(path)
    )))
}

/// Checks that standard input is not given twice.
///
/// # Errors
/// If it is.
pub fn check_once<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    match paths
        .into_iter()
        .filter(|path| is_standard_input(path))
        .count()
    {
        0 | 1 => Ok(()),
        _ => Err(Failure::usage(
            "standard input is read once; give `-` once, and files for the other traces",
        )),
    }
}

/// Checks that no file is given twice, also under another name.
///
/// # Errors
/// If one is.
pub fn check_different(paths: &[PathBuf]) -> Result<(), Failure> {
    let mut known: HashMap<(u64, u64), &Path> = HashMap::new();
    for path in paths.iter().filter(|path| is_file(path)) {
        let Ok(file) = path.metadata() else { continue };
        if let Some(other) = known.insert((file.dev(), file.ino()), path) {
            return Err(Failure::usage(format!(
                "{}: this file is given twice (as {}), so its requests would count twice",
                shown(path),
                shown(other)
            )));
        }
    }
    Ok(())
}

//! Reads the files of `larder advise`.

use super::AdviseArgs;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::replay::progress::Progress;
use crate::trace_file;
use larder_advise::Gathering;
use std::path::PathBuf;
use std::sync::Arc;

/// The requests read at a time.
const CHUNK_REQUESTS: usize = 1 << 16;

/// Reads all files.
///
/// # Errors
/// If one cannot be read, or standard input is given twice.
pub fn read(args: &AdviseArgs, bar: &Arc<Bar>) -> Result<Gathering, Failure> {
    trace_file::check_once(args.files.iter().map(PathBuf::as_path))?;
    let progress = Progress::on(bar.clone());
    progress.add(args.files.iter().map(|path| trace_file::units(path)).sum());
    let mut gathering = Gathering::new(args.keep, args.seed);
    let mut chunk = Vec::new();
    for path in &args.files {
        let mut trace = args.layout.open_once(path)?;
        let name = trace_file::name(path);
        gathering.begin(name.clone(), Some(trace.format()));
        loop {
            trace
                .read_many(&mut chunk, CHUNK_REQUESTS)
                .map_err(|error| Failure::usage(error.to_string()))?;
            if chunk.is_empty() {
                break;
            }
            gathering.requests(&chunk);
            progress.at(
                "reading",
                &name,
                gathering.taken(),
                trace.progress(),
                trace_file::units(path),
            );
        }
        progress.done(trace_file::units(path));
    }
    Ok(gathering)
}

//! Reads the files of `larder advise`.

use super::AdviseArgs;
use super::merged::Merged;
use crate::failure::Failure;
use crate::progress::Bar;
use crate::replay::progress::Progress;
use crate::trace_file;
use larder_advise::Gathering;
use std::path::PathBuf;
use std::sync::Arc;

/// Reads all files.
///
/// # Errors
/// If one cannot be read, or is given twice.
pub fn read(args: &AdviseArgs, bar: &Arc<Bar>) -> Result<Gathering, Failure> {
    trace_file::check_once(args.files.iter().map(PathBuf::as_path))?;
    trace_file::check_different(&args.files)?;
    let progress = Progress::on(bar.clone());
    progress.add(args.files.iter().map(|path| trace_file::units(path)).sum());
    let mut gathering = Gathering::new(args.keep, args.seed);
    let mut merged = Merged::open(&args.files, &args.layout)?;
    for file in merged.files() {
        gathering.begin(file.name.clone(), Some(file.format));
    }
    while let Some(requests) = merged.next()? {
        gathering.requests(requests);
        let taken = gathering.taken();
        merged.show(&progress, taken);
    }
    for (name, report) in merged.reports() {
        gathering.end(name, report);
    }
    for remark in merged.overlaps() {
        gathering.remark(remark);
    }
    Ok(gathering)
}

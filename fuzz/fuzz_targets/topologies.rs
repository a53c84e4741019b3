//! Topology files of every format, and scenarios with them: a network or an error in one line,
//! never a panic. The first byte chooses the format.
#![no_main]

use larder_netsim::scenario::Scenario;
use libfuzzer_sys::fuzz_target;

const FORMATS: [&str; 5] = ["annotated", "rocketfuel", "weights", "latencies", "graphml"];

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    let format = FORMATS[usize::from(choice) % FORMATS.len()];
    let text = format!(
        "duration = \"1ms\"\n[topology]\nfile = \"t\"\nformat = \"{format}\"\nlink = {{}}\n"
    );
    if let Err(error) = Scenario::parse_with(&text, "fuzz", &|_| Ok(bytes.to_vec())) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});

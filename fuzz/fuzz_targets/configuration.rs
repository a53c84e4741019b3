//! The node's configuration: any text is read, or refused in one line that names its place.
#![no_main]

use larder_node::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Config::parse(text, "node.toml") {
        let line = error.to_string();
        assert!(line.contains("node.toml"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
});

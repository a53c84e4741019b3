//! The node's configuration: any text is read, or refused with one line per error, which names its
//! place.
#![no_main]

use larder_node::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Err(error) = Config::parse(text, "node.toml") {
        let lines = error.to_string();
        assert!(!lines.is_empty());
        for line in lines.lines() {
            assert!(line.starts_with("node.toml"), "{line}");
        }
    }
});

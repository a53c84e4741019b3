//! Names: URI text of any kind parses or is refused with a reason; names from the wire print to a
//! URI that parses back to them.
#![no_main]

use larder_packet::{Name, NameRef};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        match text.parse::<Name>() {
            Ok(name) => prints_and_parses_back(name.as_name()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    match NameRef::from_value(bytes) {
        Ok(name) => {
            prints_and_parses_back(name);
            let ends: Vec<usize> = name.prefix_ends().collect();
            assert_eq!(ends.len(), name.component_count());
            assert!(
                ends.iter()
                    .enumerate()
                    .all(|(i, &end)| name.prefix(i + 1).as_bytes() == &bytes[..end])
            );
            assert!(name.starts_with(name.without_last()));
            let _ = name.strip_implicit_digest();
        }
        Err(error) => assert!(error.offset <= bytes.len(), "{error}"),
    }
});

fn prints_and_parses_back(name: NameRef<'_>) {
    let text = name.to_string();
    let again: Name = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again.as_name(), name, "{text}");
}

//! The path of a request, as the name of a file below a folder.

#![no_main]

use larder_static_files::FilePath;

libfuzzer_sys::fuzz_target!(|text: &str| {
    for dot_files in [false, true] {
        let Ok(path) = FilePath::parse(text, dot_files) else {
            continue;
        };
        let bytes = path.as_bytes();
        assert!(!bytes.contains(&0) && bytes.len() < 4096);
        assert!(!bytes.starts_with(b"/") && !bytes.ends_with(b"/"));
        if !bytes.is_empty() {
            let mut segments = bytes.split(|byte| *byte == b'/');
            assert!(segments.all(|segment| !matches!(segment, b"" | b"." | b"..")));
        }
    }
});

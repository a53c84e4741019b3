//! Media types of files by their names.

use crate::config::FilesConfig;

/// Returns the `Content-Type` of a file with this name.
pub(crate) fn content_type(config: &FilesConfig, path: &[u8]) -> String {
    let ending = ending(path).to_ascii_lowercase();
    let ending = String::from_utf8_lossy(&ending);
    let own = config.types.get(&*ending).cloned();
    let known = || {
        let first = mime_guess::from_ext(&ending).first_raw();
        first.unwrap_or("application/octet-stream").to_owned()
    };
    let mut found = own.unwrap_or_else(known);
    if found == "application/javascript" {
        // RFC 9239.
        "text/javascript".clone_into(&mut found);
    }
    if found.starts_with("text/") && !config.charset.is_empty() && !found.contains(';') {
        found.push_str("; charset=");
        found.push_str(&config.charset);
    }
    found
}

/// Formats that are compressed already: nobody has a compressed file beside them, and a look for it
/// would cost each request as much as the look at the file.
const COMPRESSED: [&[u8]; 30] = [
    b"7z", b"aac", b"apk", b"avif", b"br", b"bz2", b"flac", b"gif", b"gz", b"heic", b"jar",
    b"jpeg", b"jpg", b"m4a", b"m4v", b"mkv", b"mov", b"mp3", b"mp4", b"ogg", b"opus", b"png",
    b"rar", b"webm", b"webp", b"woff", b"woff2", b"xz", b"zip", b"zst",
];

/// Returns true if a compressed file may be beside the file with this name.
pub(crate) fn may_be_compressed(path: &[u8]) -> bool {
    let ending = ending(path);
    let mut lower = [0; 5];
    let Some(lower) = lower.get_mut(..ending.len()) else {
        return true;
    };
    lower.copy_from_slice(ending);
    lower.make_ascii_lowercase();
    COMPRESSED.binary_search(&&*lower).is_err()
}

/// Returns the end of a name, without its dot; empty if it has none.
fn ending(path: &[u8]) -> &[u8] {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let dot = name.iter().rposition(|byte| *byte == b'.');
    dot.map_or(&b""[..], |dot| &name[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a browser does not run a script, or shows a page in the wrong charset.
    #[test]
    fn types_of_the_web() {
        let mut config = FilesConfig::new("/");
        config.types.insert("x".to_owned(), "text/x".to_owned());
        for (name, expected) in [
            ("a/index.html", "text/html; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("A.JS", "text/javascript; charset=utf-8"),
            ("a.mjs", "text/javascript; charset=utf-8"),
            ("a.json", "application/json"),
            ("a.wasm", "application/wasm"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.webp", "image/webp"),
            ("a.avif", "image/avif"),
            ("a.woff2", "font/woff2"),
            ("a.txt", "text/plain; charset=utf-8"),
            ("a.pdf", "application/pdf"),
            ("a.x", "text/x; charset=utf-8"),
            ("a", "application/octet-stream"),
            ("a.b/c", "application/octet-stream"),
        ] {
            assert_eq!(content_type(&config, name.as_bytes()), expected, "{name}");
        }
        config.charset.clear();
        assert_eq!(content_type(&config, b"a.html"), "text/html");
        assert!(may_be_compressed(b"a.js") && !may_be_compressed(b"a.JPG"));
        assert!(may_be_compressed(b"a") && may_be_compressed(b"a.webmanifest"));
        assert!(COMPRESSED.is_sorted(), "it is searched");
    }
}

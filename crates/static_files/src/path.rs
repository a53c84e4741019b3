//! The path of a request, as the name of a file.

/// The reason why a path names no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It does not start with a slash.
    Relative,
    /// A `%` without two hexadecimal digits.
    Escape,
    /// A NUL, a backslash, or an encoded slash.
    Byte,
    /// Two slashes beside each other.
    EmptySegment,
    /// `.` or `..`.
    DotSegment,
    /// A segment that begins with a dot, and is not `.well-known` (RFC 8615).
    DotFile,
    /// It is longer than Linux allows.
    TooLong,
}

/// The longest path in bytes (PATH_MAX of Linux, with its NUL).
const MOST_BYTES: usize = 4095;

/// A path below the root, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// The segments with slashes between them, and none at either end; empty for the root.
    pub(crate) bytes: Vec<u8>,
    /// True if the path ends with a slash: it names a folder.
    pub(crate) is_folder: bool,
}

impl FilePath {
    /// Decodes the path of a request, without its query, once. `dot_files`: segments may begin with
    /// a dot.
    ///
    /// # Errors
    /// [`BadPath`] if it names no file, whatever is below the root.
    pub fn parse(path: &str, dot_files: bool) -> Result<FilePath, BadPath> {
        let path = path.strip_prefix('/').ok_or(BadPath::Relative)?;
        let has_one_slash = path.is_empty();
        let (path, is_folder) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, path.is_empty()),
        };
        if path.len() > 3 * MOST_BYTES {
            return Err(BadPath::TooLong);
        }
        let mut bytes = Vec::with_capacity(path.len());
        if path.is_empty() && has_one_slash {
            return Ok(FilePath { bytes, is_folder });
        }
        for (number, segment) in path.split('/').enumerate() {
            if number > 0 {
                bytes.push(b'/');
            }
            let start = bytes.len();
            decode(segment, &mut bytes)?;
            match &bytes[start..] {
                b"" => return Err(BadPath::EmptySegment),
                b"." | b".." => return Err(BadPath::DotSegment),
                name if name.contains(&0) || name.contains(&b'/') || name.contains(&b'\\') => {
                    return Err(BadPath::Byte);
                }
                name if name[0] == b'.' && !dot_files && name != b".well-known" => {
                    return Err(BadPath::DotFile);
                }
                _ => {}
            }
        }
        if bytes.len() > MOST_BYTES {
            return Err(BadPath::TooLong);
        }
        Ok(FilePath { bytes, is_folder })
    }

    /// Returns the segments with slashes between them; empty for the root.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if the path ends with a slash.
    pub fn is_folder(&self) -> bool {
        self.is_folder
    }

    /// Returns the path with this text behind it.
    pub(crate) fn with(&self, suffix: &[u8]) -> Vec<u8> {
        [&self.bytes, suffix].concat()
    }

    /// Returns the path of a file in this folder.
    pub(crate) fn child(&self, name: &str) -> Vec<u8> {
        if self.bytes.is_empty() {
            name.as_bytes().to_vec()
        } else {
            [&self.bytes, &b"/"[..], name.as_bytes()].concat()
        }
    }
}

/// Appends the bytes that a segment stands for.
fn decode(segment: &str, bytes: &mut Vec<u8>) -> Result<(), BadPath> {
    if !segment.contains('%') {
        bytes.extend_from_slice(segment.as_bytes());
        return Ok(());
    }
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else {
            return Err(BadPath::Escape);
        };
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
            return Err(BadPath::Escape);
        };
        bytes.push(high << 4 | low);
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Failure: a path names another file than its author meant, or one outside of the root.
    #[test]
    fn paths_that_name_files_and_paths_that_do_not() {
        let named =
            |path: &str| FilePath::parse(path, false).map(|found| (found.bytes, found.is_folder));
        for (path, bytes, is_folder) in [
            ("/", "", true),
            ("/a", "a", false),
            ("/a/b.css", "a/b.css", false),
            ("/a/", "a", true),
            ("/%61%20b", "a b", false),
            ("/a%2561", "a%61", false),
            (
                "/.well-known/acme-challenge/x",
                ".well-known/acme-challenge/x",
                false,
            ),
            ("/a..b/c.", "a..b/c.", false),
            ("/%C3%A4", "ä", false),
        ] {
            assert_eq!(named(path), Ok((bytes.into(), is_folder)), "{path}");
        }
        for (path, problem) in [
            ("", BadPath::Relative),
            ("a", BadPath::Relative),
            ("//", BadPath::EmptySegment),
            ("//etc/passwd", BadPath::EmptySegment),
            ("/a//b", BadPath::EmptySegment),
            ("/a//", BadPath::EmptySegment),
            ("/../a", BadPath::DotSegment),
            ("/a/..", BadPath::DotSegment),
            ("/a/../", BadPath::DotSegment),
            ("/%2e%2E/a", BadPath::DotSegment),
            ("/.%2e/a", BadPath::DotSegment),
            ("/./a", BadPath::DotSegment),
            ("/..%2fa", BadPath::Byte),
            ("/a%2f..%2fb", BadPath::Byte),
            ("/..\\a", BadPath::Byte),
            ("/..%5ca", BadPath::Byte),
            ("/a%00.png", BadPath::Byte),
            ("/..;/a", BadPath::DotFile),
            ("/.git/config", BadPath::DotFile),
            ("/a/.htaccess", BadPath::DotFile),
            ("/.well-known2/a", BadPath::DotFile),
            ("/%", BadPath::Escape),
            ("/%2", BadPath::Escape),
            ("/%zz", BadPath::Escape),
            ("/%+1", BadPath::Escape),
        ] {
            assert_eq!(named(path), Err(problem), "{path}");
        }
        assert_eq!(named(&"/a".repeat(3000)), Err(BadPath::TooLong));
        assert!(FilePath::parse("/.git/config", true).is_ok());
        assert_eq!(FilePath::parse("/../a", true), Err(BadPath::DotSegment));
    }

    proptest! {
        /// Failure: some spelling of a path leaves the root, or panics.
        #[test]
        fn no_spelling_leaves_the_root(
            path in "(/|%2f|%2F|\\.|%2e|%2E|%252e|%00|\\\\|%5c|;|a|%c0%ae|%c0%af|%|[ -~]){0,12}",
            dot_files: bool,
        ) {
            if let Ok(found) = FilePath::parse(&path, dot_files) {
                let mut segments = found.bytes.split(|byte| *byte == b'/');
                let is_root = found.bytes.is_empty() && found.is_folder;
                prop_assert!(
                    is_root || segments.all(|segment| !matches!(segment, b"" | b"." | b"..")
                        && !segment.contains(&0))
                );
            }
        }
    }
}

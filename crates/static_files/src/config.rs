//! The configuration of an origin of files.

use crate::accepts::Coding;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::{error, fmt};

/// The folder whose files are served, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesConfig {
    /// The folder.
    pub root: PathBuf,
    /// The names of files that stand for their folder, the first that exists.
    pub index: Vec<String>,
    /// The files that are tried for a request, in this order.
    pub steps: Vec<TryStep>,
    /// The codings whose files are served instead of the plain ones, the preferred one first.
    pub precompressed: Vec<Coding>,
    /// Whether names may begin with a dot.
    pub dot_files: bool,
    /// Whether symbolic links are followed, within the root.
    pub links: bool,
    /// The time for which a stored response is used without a look at the file; zero: none.
    pub check: Duration,
    /// The page of responses with 404, as a path below the root.
    pub not_found: Option<String>,
    /// The charset of text; empty: none is stated.
    pub charset: String,
    /// Media types by the ends of names, without the dot, that replace the usual ones.
    pub types: BTreeMap<String, String>,
}

impl FilesConfig {
    /// Returns the usual configuration for this folder.
    pub fn new(root: impl Into<PathBuf>) -> FilesConfig {
        FilesConfig {
            root: root.into(),
            index: vec!["index.html".to_owned()],
            steps: vec![TryStep::Uri(String::new()), TryStep::Folder],
            precompressed: Coding::ALL.to_vec(),
            dot_files: false,
            links: true,
            check: Duration::ZERO,
            not_found: None,
            charset: "utf-8".to_owned(),
            types: BTreeMap::new(),
        }
    }
}

/// A file that is tried for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryStep {
    /// `$uri`, perhaps with a text behind it, as in `$uri.html`: the file with the request's path.
    Uri(String),
    /// `$uri/`: the index of the folder with the request's path.
    Folder,
    /// A file for all requests that come to this step, such as `/index.html`.
    File(String),
    /// `=404`.
    NotFound,
}

/// A text that is no step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryStepError(String);

impl fmt::Display for TryStepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}: expected \"$uri\", \"$uri/\", \"$uri.html\", a file such as \"/index.html\", or \"=404\"",
            self.0
        )
    }
}

impl error::Error for TryStepError {}

impl std::str::FromStr for TryStep {
    type Err = TryStepError;

    fn from_str(text: &str) -> Result<TryStep, TryStepError> {
        let problem = || TryStepError(text.to_owned());
        match text.strip_prefix("$uri") {
            Some("/") => return Ok(TryStep::Folder),
            Some(suffix) if !suffix.contains(['/', '$', '\0']) => {
                return Ok(TryStep::Uri(suffix.to_owned()));
            }
            Some(_) => return Err(problem()),
            None => {}
        }
        match text {
            "=404" => Ok(TryStep::NotFound),
            _ if is_file(text) => Ok(TryStep::File(text[1..].to_owned())),
            _ => Err(problem()),
        }
    }
}

/// Returns true for the path of a file, from the root.
fn is_file(text: &str) -> bool {
    let is_name = |name: &str| !matches!(name, "" | "." | "..");
    text.strip_prefix('/')
        .is_some_and(|path| path.split('/').all(is_name) && !path.contains(['$', '\0']))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a mistake in a step passes, and its requests get 404.
    #[test]
    fn steps() {
        for (text, step) in [
            ("$uri", TryStep::Uri(String::new())),
            ("$uri.html", TryStep::Uri(".html".to_owned())),
            ("$uri/", TryStep::Folder),
            ("/a/index.html", TryStep::File("a/index.html".to_owned())),
            ("=404", TryStep::NotFound),
        ] {
            assert_eq!(text.parse(), Ok(step));
        }
        for text in [
            "",
            "/",
            "index.html",
            "/a/",
            "/../a",
            "$uri/index.html",
            "$url",
            "@app",
            "=403",
            "/$uri",
        ] {
            assert!(text.parse::<TryStep>().is_err(), "{text}");
        }
    }
}

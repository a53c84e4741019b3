//! Files as an origin: `[http.files]`, and `files` of `[[http.origins]]`.

use larder_proxy::static_files::{Coding, FilesConfig, TryStep};
use larder_units::from_text;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the files of a folder are served.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct FilesTable {
    /// The files that are tried for a request.
    #[serde(rename = "try", deserialize_with = "steps")]
    pub steps: Vec<TryStep>,
    /// The files that stand for their folder.
    #[serde(deserialize_with = "names")]
    pub index: Vec<String>,
    /// The codings of the compressed files beside plain ones, the preferred one first.
    #[serde(deserialize_with = "codings")]
    pub precompressed: Vec<Coding>,
    /// The time for which a stored file is not looked at; 0: each hit looks at it.
    #[serde(deserialize_with = "check")]
    pub check: Duration,
    /// The page of responses with 404; `None` for a line of text.
    #[serde(deserialize_with = "page")]
    pub not_found: Option<String>,
    /// Whether symbolic links within the folder are followed.
    pub symlinks: bool,
    /// Whether files whose names begin with a dot are served.
    pub dot_files: bool,
    /// The charset of text; "" for none.
    #[serde(deserialize_with = "charset")]
    pub charset: String,
    /// Media types by the ends of names.
    #[serde(deserialize_with = "types")]
    pub types: BTreeMap<String, String>,
}

impl Default for FilesTable {
    fn default() -> Self {
        let FilesConfig {
            root: _,
            index,
            steps,
            precompressed,
            dot_files,
            links,
            check,
            not_found,
            charset,
            types,
        } = FilesConfig::new(PathBuf::new());
        FilesTable {
            steps,
            index,
            precompressed,
            check,
            not_found,
            symlinks: links,
            dot_files,
            charset,
            types,
        }
    }
}

impl FilesTable {
    /// Returns the configuration of the files below this folder.
    pub fn config(&self, root: &Path) -> FilesConfig {
        FilesConfig {
            root: root.to_owned(),
            index: self.index.clone(),
            steps: self.steps.clone(),
            precompressed: self.precompressed.clone(),
            dot_files: self.dot_files,
            links: self.symlinks,
            check: self.check,
            not_found: self.not_found.clone(),
            charset: self.charset.clone(),
            types: self.types.clone(),
        }
    }
}

/// What a folder of files has to be.
pub(super) const EXPECTED_FOLDER: &str = "\"file:///FOLDER\"";

/// Returns the folder of `file:///FOLDER`, or of a path: `/FOLDER`, `.`, `./FOLDER` or `../FOLDER`,
/// from the present folder. `None` if the text is neither.
pub(super) fn folder(text: &str) -> Option<PathBuf> {
    let is_path = matches!(text, "." | "..")
        || ["/", "./", "../"]
            .iter()
            .any(|start| text.starts_with(start));
    if is_path {
        return std::path::absolute(text)
            .ok()
            .filter(|_| !text.contains('\0'));
    }
    // RFC 8089: without an authority, or with that of this machine.
    let rest = text.strip_prefix("file:")?;
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    if !path.starts_with('/') || path.starts_with("//") || path.contains(['?', '#']) {
        return None;
    }
    let (bytes, mut decoded, mut at) = (path.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = path.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let pair = pair.filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(0) => return None,
            Some(byte) => decoded.push(byte),
            None if *byte == b'%' => return None,
            None => decoded.push(*byte),
        }
        at += if pair.is_some() { 3 } else { 1 };
    }
    Some(PathBuf::from(OsString::from_vec(decoded)))
}

/// Reads the folder of `[[http.origins]] origin`.
pub(super) fn optional_folder<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PathBuf>, D::Error> {
    from_text(deserializer, |text| {
        let problem = format!("expected {EXPECTED_FOLDER}; HTTP servers stand in `servers`");
        folder(text).map(Some).ok_or(problem)
    })
}

fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TryStep>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let steps = texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom));
    let steps: Vec<TryStep> = steps.collect::<Result<_, _>>()?;
    if steps.is_empty() {
        return Err(D::Error::custom("try: expected at least \"$uri\""));
    }
    Ok(steps)
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let is_name =
        |name: &String| !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0']);
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(D::Error::custom(format!(
            "index: {name:?}: expected the name of a file, such as \"index.html\""
        ))),
        None => Ok(names),
    }
}

fn codings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Coding>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let coding = |name: &String| {
        let known = Coding::ALL.into_iter().find(|coding| coding.name() == name);
        known.ok_or_else(|| {
            let all = Coding::ALL.map(Coding::name).join(", ");
            D::Error::custom(format!("precompressed: {name:?}: expected one of {all}"))
        })
    };
    names.iter().map(coding).collect()
}

fn check<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    from_text(deserializer, |text| {
        let check = larder_units::parse_duration(text).map_err(|error| error.to_string())?;
        let is_whole = check.subsec_nanos() == 0;
        is_whole.then_some(check).ok_or_else(|| {
            "expected whole seconds, such as \"1s\", or \"0s\" to look at the file at each hit"
                .to_owned()
        })
    })
}

fn page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    from_text(deserializer, |text| match text.parse() {
        _ if text.is_empty() => Ok(None),
        Ok(TryStep::File(_)) => Ok(Some(text.to_owned())),
        _ => Err("expected a file below the folder, such as \"/404.html\", or \"\" for none"),
    })
}

fn charset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    from_text(deserializer, |text| {
        let is_token = text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:+".contains(&byte));
        is_token
            .then(|| text.to_owned())
            .ok_or("expected a charset, such as \"utf-8\", or \"\" for none")
    })
}

fn types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let types = BTreeMap::<String, String>::deserialize(deserializer)?;
    for (ending, media_type) in &types {
        let is_ending = !ending.is_empty() && !ending.contains(['.', '/']);
        let is_type = media_type.contains('/')
            && media_type
                .bytes()
                .all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !is_ending || !is_type {
            return Err(D::Error::custom(format!(
                "types: {ending:?} = {media_type:?}: expected the end of a name without its dot, and a media type, \
                 as in md = \"text/markdown\""
            )));
        }
    }
    // Names are compared in lower case.
    Ok(types
        .into_iter()
        .map(|(ending, media_type)| (ending.to_ascii_lowercase(), media_type))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a host has the files of another one, or its settings are those of `[http.files]`.
    #[test]
    fn files_of_hosts() {
        let text = "[http]\norigin = \"file:///srv/www\"\n[http.files]\ncheck = \"2s\"\n\
                    [[http.origins]]\nhost = \"app.example\"\norigin = \"/srv/app\"\n\
                    files = { try = [\"$uri\", \"/index.html\"], precompressed = [] }\n";
        let config = crate::Config::parse(text, "larder.toml");
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let found: Vec<_> = config.http.folders().collect();
        assert_eq!(
            (found[0].0, found[1].0),
            ("[http] origin", "[[http.origins]] origin")
        );
        let (one, two) = (&found[0].1, &found[1].1);
        assert_eq!(
            (one.root.to_str(), one.check.as_secs()),
            (Some("/srv/www"), 2)
        );
        assert_eq!(
            (two.root.to_str(), two.check.as_secs()),
            (Some("/srv/app"), 0)
        );
        let steps = [
            TryStep::Uri(String::new()),
            TryStep::File("index.html".to_owned()),
        ];
        assert!(two.steps == steps && two.precompressed.is_empty());
        assert_eq!(one.precompressed, Coding::ALL);
    }

    /// Failure: a folder is taken for a server, or the other way round; or another one is served.
    #[test]
    fn folders() {
        for (text, path) in [
            ("file:///srv/www", "/srv/www"),
            ("file:/srv/www", "/srv/www"),
            ("file://localhost/srv/www", "/srv/www"),
            ("file:///srv/my%20site", "/srv/my site"),
            ("/srv/www", "/srv/www"),
            ("/", "/"),
        ] {
            assert_eq!(folder(text).as_deref(), Some(Path::new(path)), "{text}");
        }
        let here = std::env::current_dir().unwrap();
        assert_eq!(folder(".").as_deref(), Some(&*here));
        assert_eq!(folder("./site"), Some(here.join("site")));
        for text in [
            "",
            "srv/www",
            "file:",
            "file://",
            "file://host/srv",
            "file:srv",
            "file:////srv",
            "file:///srv?a",
            "file:///srv#a",
            "file:///a%00b",
            "file:///a%2",
            "file:///a%+1",
            "http://a",
        ] {
            assert_eq!(folder(text), None, "{text}");
        }
    }
}

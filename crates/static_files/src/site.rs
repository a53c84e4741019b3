//! The files of a root: which one a request gets.

use crate::accepts::{Accepts, Coding};
use crate::config::{FilesConfig, TryStep};
use crate::look::{Kind, Look, Meta, Miss};
use crate::media;
use crate::path::FilePath;
use crate::root::{Handle, Root, RootError};
use crate::tag::Tag;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The version of the heads that hosts make of files. A change makes every tag another one, so no
/// cache keeps an old head.
const HEAD_VERSION: u64 = 1;

/// Attempts to open the file that was found, if others replace it meanwhile.
const ATTEMPTS: usize = 4;

/// The characters of a path that an error shows.
const PATH_SHOWN: usize = 200;

/// An open root with its configuration.
pub struct Site {
    config: FilesConfig,
    root: Root,
    seed: u64,
    counters: Counters,
    last_error: Mutex<Option<String>>,
}

#[derive(Default)]
struct Counters {
    opened: AtomicU64,
    checked: AtomicU64,
    forbidden: AtomicU64,
    failed: AtomicU64,
}

/// The counters of a [`Site`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Files opened.
    pub opened: u64,
    /// Requests for which a file was looked at, but not opened.
    pub checked: u64,
    /// Requests for files that the node may not read, that are outside of the root, or that are no
    /// regular files.
    pub forbidden: u64,
    /// Requests that failed by an error of the system.
    pub failed: u64,
    /// The last error, until the next file is opened.
    pub last_error: Option<String>,
}

/// What a request gets.
#[derive(Debug)]
pub enum Opened {
    /// A file.
    File(OpenedFile),
    /// The same path with a slash behind it: the reference, relative to the path of the request.
    Redirect(String),
    /// Nothing, with the page that says so, if there is one.
    NotFound(Option<OpenedFile>),
    /// A file that is not served.
    Forbidden,
    /// An error of the system.
    Failed,
}

/// An open file.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file, a regular one.
    pub file: File,
    /// What it was when it was opened.
    pub meta: Meta,
    /// Its entity tag.
    pub tag: Tag,
    /// Its media type, without its coding.
    pub content_type: String,
    /// Its coding.
    pub coding: Option<Coding>,
    /// True if clients that accept other codings get another file.
    pub varies: bool,
    /// True if it answers requests for many paths.
    pub is_fallback: bool,
}

/// The file that a request gets.
struct Found {
    path: Vec<u8>,
    meta: Meta,
    is_fallback: bool,
}

/// The coding of a file that is chosen.
struct Chosen {
    path: Vec<u8>,
    meta: Meta,
    coding: Option<Coding>,
    varies: bool,
}

enum Search {
    Found(Found),
    Redirect,
    Nothing,
}

impl Site {
    /// Opens the root.
    ///
    /// # Errors
    /// [`RootError`]: one line with a remedy.
    pub fn open(config: FilesConfig) -> Result<Site, RootError> {
        let root = Root::open(&config.root, config.links)?;
        // The parts of the configuration that change heads.
        let of_heads = format!("{:?} {:?}", config.charset, config.types);
        Ok(Site {
            root,
            seed: xxh3_64_with_seed(of_heads.as_bytes(), HEAD_VERSION),
            config,
            counters: Counters::default(),
            last_error: Mutex::default(),
        })
    }

    /// Returns the configuration.
    pub fn config(&self) -> &FilesConfig {
        &self.config
    }

    /// Returns the counters.
    pub fn figures(&self) -> Figures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            opened: of(&self.counters.opened),
            checked: of(&self.counters.checked),
            forbidden: of(&self.counters.forbidden),
            failed: of(&self.counters.failed),
            last_error: self.lock().clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the last error, with the beginning of a path that a client has written.
    fn note(&self, path: &str, problem: &dyn std::fmt::Display) {
        let shown: String = path.chars().take(PATH_SHOWN).collect();
        *self.lock() = Some(format!("{shown}: {problem}"));
    }

    /// Opens the file of a request with this path, without its query. It blocks for as long as the
    /// file system does.
    pub fn find(&self, path: &str, accepts: Accepts) -> Opened {
        let (root, root_error) = self.root.current();
        let parsed = FilePath::parse(path, self.config.dot_files);
        let found = match &parsed {
            Ok(parsed) => self.open_file(&root, parsed, accepts),
            Err(_) => Err(Miss::Nothing),
        };
        match found {
            Ok(Some(file)) => {
                self.counters.opened.fetch_add(1, Ordering::Relaxed);
                *self.lock() = root_error.map(|error| error.to_string());
                Opened::File(file)
            }
            Ok(None) => Opened::Redirect(with_slash(path)),
            Err(Miss::Nothing) => {
                if let Some(error) = root_error {
                    *self.lock() = Some(error.to_string());
                }
                Opened::NotFound(self.not_found_page(&root))
            }
            Err(Miss::Forbidden(reason)) => {
                self.counters.forbidden.fetch_add(1, Ordering::Relaxed);
                self.note(path, &reason);
                Opened::Forbidden
            }
            Err(Miss::Failed(error)) => {
                self.counters.failed.fetch_add(1, Ordering::Relaxed);
                self.note(path, &error);
                Opened::Failed
            }
        }
    }

    /// Returns the tag of the file that a request would get now, without opening it; `None` if it
    /// would get none, or the file changes often. Only the tag of a response from
    /// [`Site::find`] may be compared with it.
    pub fn tag(&self, path: &str, accepts: Accepts) -> Option<Tag> {
        let parsed = FilePath::parse(path, self.config.dot_files).ok()?;
        self.counters.checked.fetch_add(1, Ordering::Relaxed);
        let mut look = self.root.by_path(path.len());
        let Ok(Search::Found(found)) = self.search(&mut look, &parsed) else {
            return None;
        };
        let chosen = self.choose(&mut look, found.path, found.meta, accepts, false);
        Some(self.tag_of(&chosen.meta))
    }

    fn tag_of(&self, meta: &Meta) -> Tag {
        Tag::new(meta, self.seed, SystemTime::now())
    }

    fn not_found_page(&self, root: &Handle) -> Option<OpenedFile> {
        let page = self.config.not_found.as_ref()?;
        let path = page.trim_start_matches('/').as_bytes();
        let (file, meta) = root.read(path).ok()?;
        Some(OpenedFile {
            file,
            meta,
            tag: self.tag_of(&meta),
            content_type: media::content_type(&self.config, path),
            coding: None,
            varies: false,
            is_fallback: true,
        })
    }

    /// `None` is the folder without its slash.
    fn open_file(
        &self,
        root: &Handle,
        path: &FilePath,
        accepts: Accepts,
    ) -> Result<Option<OpenedFile>, Miss> {
        let (mut attempts, mut accepts, mut look) = (0, accepts, root);
        loop {
            attempts += 1;
            let found = match self.search(&mut look, path)? {
                Search::Found(found) => found,
                Search::Redirect => return Ok(None),
                Search::Nothing => return Err(Miss::Nothing),
            };
            let content_type = media::content_type(&self.config, &found.path);
            let chosen = self.choose(&mut look, found.path, found.meta, accepts, true);
            let (file, meta) = match root.read(&chosen.path) {
                Ok(opened) => opened,
                Err(Miss::Nothing) if attempts < ATTEMPTS => continue,
                Err(_) if chosen.coding.is_some() => {
                    // The plain file may be readable.
                    accepts = Accepts::default();
                    continue;
                }
                Err(miss) => return Err(miss),
            };
            if meta != chosen.meta && attempts < ATTEMPTS {
                continue;
            }
            return Ok(Some(OpenedFile {
                file,
                meta,
                tag: self.tag_of(&meta),
                content_type,
                coding: chosen.coding,
                varies: chosen.varies,
                is_fallback: found.is_fallback,
            }));
        }
    }

    /// Tries the steps.
    fn search(&self, look: &mut impl Look, path: &FilePath) -> Result<Search, Miss> {
        for step in &self.config.steps {
            let (file, is_fallback) = match step {
                TryStep::NotFound => return Ok(Search::Nothing),
                TryStep::Uri(_) if path.is_folder => continue,
                TryStep::Uri(suffix) => (path.with(suffix.as_bytes()), false),
                TryStep::File(file) => (file.as_bytes().to_vec(), true),
                TryStep::Folder => match self.index(look, path)? {
                    Some(_) if !path.is_folder => return Ok(Search::Redirect),
                    Some(found) => return Ok(Search::Found(found)),
                    None => continue,
                },
            };
            if let Some(meta) = regular(look, &file)? {
                return Ok(Search::Found(Found {
                    path: file,
                    meta,
                    is_fallback,
                }));
            }
        }
        Ok(Search::Nothing)
    }

    /// Returns the index of a folder.
    fn index(&self, look: &mut impl Look, path: &FilePath) -> Result<Option<Found>, Miss> {
        for name in &self.config.index {
            let file = path.child(name);
            if let Some(meta) = regular(look, &file)? {
                return Ok(Some(Found {
                    path: file,
                    meta,
                    is_fallback: false,
                }));
            }
        }
        Ok(None)
    }

    /// Chooses the plain file, or one beside it that is compressed and not older. With `all`, also
    /// finds out whether other clients get another one.
    fn choose(
        &self,
        look: &mut impl Look,
        path: Vec<u8>,
        meta: Meta,
        accepts: Accepts,
        all: bool,
    ) -> Chosen {
        let offered = &self.config.precompressed;
        let mut chosen = Chosen {
            path,
            meta,
            coding: None,
            varies: false,
        };
        let is_asked = all || accepts.has_codings();
        if offered.is_empty() || !is_asked || !media::may_be_compressed(&chosen.path) {
            return chosen;
        }
        let plain = chosen.path.clone();
        let mut sibling = |coding: Coding| {
            let path = [&plain, coding.suffix().as_bytes()].concat();
            let found = regular(look, &path).ok().flatten();
            found
                .filter(|found| found.modified_nanos >= meta.modified_nanos)
                .map(|meta| (path, meta))
        };
        for coding in accepts.choose(offered) {
            if let Some((path, meta)) = sibling(coding) {
                chosen = Chosen {
                    path,
                    meta,
                    coding: Some(coding),
                    varies: true,
                };
                return chosen;
            }
        }
        chosen.varies = all && offered.iter().any(|coding| sibling(*coding).is_some());
        chosen
    }
}

/// Returns the metadata of a regular file; `None` if there is nothing, or a folder.
fn regular(look: &mut impl Look, path: &[u8]) -> Result<Option<Meta>, Miss> {
    match look.look(path) {
        Ok((Kind::File, meta)) => Ok(Some(meta)),
        Ok((Kind::Folder, _)) | Err(Miss::Nothing) => Ok(None),
        Ok((Kind::Other, _)) => Err(Miss::Forbidden("it is no regular file")),
        Err(miss) => Err(miss),
    }
}

/// Returns the last segment of a path with a slash, as a relative reference (RFC 3986 §4.2).
fn with_slash(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or_default();
    let here = if last.contains(':') { "./" } else { "" };
    format!("{here}{last}/")
}

#[cfg(test)]
mod tests;

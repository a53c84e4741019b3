//! The files below a folder as an origin of HTTP: from the path of a request to an open file, its
//! metadata and its validators. It knows no HTTP server: `larder-proxy` makes responses of it.
//!
//! # Never outside of the root
//! * A path is decoded once ([`FilePath`]). A NUL, an encoded slash, a backslash, an empty segment
//!   and dot segments name no file; neither do dot files, except `.well-known`.
//! * The kernel resolves it below the root's descriptor: `openat2` with `RESOLVE_BENEATH` and
//!   `RESOLVE_NO_MAGICLINKS` (Linux 5.6). So a symbolic link that leaves the root leads nowhere,
//!   also if it is created while the request is served.
//! * Only regular files are opened. Others (FIFOs, devices, sockets) are looked at without opening
//!   them (`O_PATH`), so none of them waits for anything or does anything.
//!
//! # Changed files
//! A [`Tag`] is made of inode, size, and the times of modification and change in nanoseconds. A
//! file that has just been changed has a weak one, because it may change again within a tick of
//! the file system's clock. [`Site::tag`] finds the tag of the file that a request would get now
//! with one look at each file that decides about it, and opens none: a cache compares it with that
//! of its stored response. It looks at paths instead of descriptors, so it also sees a root that is
//! a symbolic link and leads elsewhere now. It only ever confirms what was opened below the root.
#![forbid(unsafe_code)]

mod accepts;
mod config;
mod look;
mod media;
mod path;
mod root;
mod site;
mod tag;

pub use accepts::{Accepts, Coding};
pub use config::{FilesConfig, TryStep, TryStepError};
pub use look::Meta;
pub use path::{BadPath, FilePath};
pub use root::RootError;
pub use site::{Figures, Opened, OpenedFile, Site};
pub use tag::Tag;

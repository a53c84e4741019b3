//! The configuration of origins and their servers.

use crate::message::target::{Decoded, Target};
use crate::origin::custom::Origin;
use crate::origin::dial::OriginProtocol;
use crate::origin::servers::PoolConfig;
use ::http::HeaderValue;
use ::http::uri::PathAndQuery;
use larder_static_files::FilesConfig;
use larder_units::ByteSize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// An origin of responses.
#[derive(Clone, Debug, Default)]
pub enum Upstream {
    /// Objects generated in this process.
    #[default]
    Generated,
    /// `http://host[:port][/path]`, `https://...`, or `unix://localhost/socket[:/path]`.
    Http(::http::Uri),
    /// The files below a folder.
    Files(FilesConfig),
    /// An origin that the host supplies.
    Custom(Arc<dyn Origin>),
}

/// `[[http.origins]]`: equivalent servers for a host and the paths under a prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginGroup {
    /// The host as it is keyed: in lower case, without the scheme's default port. Without a port it
    /// matches every port; `*.` and a domain matches all hosts below. `None` matches all.
    pub host: Option<String>,
    /// The prefix of paths, as they are sent: nothing is decoded.
    pub path: String,
    /// True if that prefix is not a part of the path at the origin. It ends with `/` then.
    pub strip_path: bool,
    /// 1 to 64 of them, or none with `files`.
    pub servers: Vec<PoolServer>,
    /// The files below a folder, in the place of servers.
    pub files: Option<FilesConfig>,
    /// The choice between them, and their health.
    pub pool: PoolConfig,
    /// A path that healthy servers answer with a status below 400, and the interval of probes.
    pub check: Option<(PathAndQuery, Duration)>,
    /// The protocol of connections to them.
    pub protocol: OriginProtocol,
    /// Bytes on disk of requests that are received whole before a server gets them; 0: they are
    /// passed on while they arrive.
    pub buffer_requests: ByteSize,
}

impl OriginGroup {
    /// Returns true if both are the first for the same requests, whatever their servers.
    pub(crate) fn is_at_place_of(&self, other: &OriginGroup) -> bool {
        (&self.host, &self.path) == (&other.host, &other.path)
    }

    /// Returns the part of the paths that the origin does not get, for `X-Forwarded-Prefix`: with
    /// it, programs make links that lead back to them.
    pub(crate) fn stripped(&self) -> Option<HeaderValue> {
        let prefix = self.path.trim_end_matches('/');
        let is_stripped = self.strip_path && !prefix.is_empty();
        is_stripped.then(|| HeaderValue::from_str(prefix).ok())?
    }

    /// Returns the target of a matching request at the origin.
    pub(crate) fn target<'a>(&self, target: &'a PathAndQuery) -> Cow<'a, PathAndQuery> {
        if !self.strip_path || self.path == "/" {
            return Cow::Borrowed(target);
        }
        let path = Target::from(target.as_str()).path();
        let decoded = Decoded::new(path, true);
        let rest = decoded.raw(path, self.path.len()..decoded.bytes.len());
        // Two slashes at the start would be read as a host.
        let rest = rest.trim_start_matches('/');
        let query = target
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        let stripped = PathAndQuery::try_from(format!("/{rest}{query}"));
        stripped.map_or(Cow::Borrowed(target), Cow::Owned)
    }
}

/// One server of an [`OriginGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolServer {
    /// `http://host:port` or `https://host:port`.
    pub uri: ::http::Uri,
    /// Its share of requests, relative to others, from 1 to [`crate::base::limits::WEIGHT_MOST`].
    pub weight: u32,
    /// True if it gets requests only if no other server can.
    pub is_backup: bool,
    /// The most requests at once; 0: no limit.
    pub max_conns: u32,
    /// Whether each address of its name is a server, with these settings. The name is resolved
    /// again when the TTL of its addresses ends. Without it, each connection resolves the name.
    pub resolve: bool,
}

impl From<::http::Uri> for PoolServer {
    /// A server of weight 1 without a limit.
    fn from(uri: ::http::Uri) -> Self {
        PoolServer {
            uri,
            weight: 1,
            is_backup: false,
            max_conns: 0,
            resolve: false,
        }
    }
}

//! An origin of files: responses made of the files below a folder (`larder-static-files`).

mod file_body;

use crate::origin::origin_body::OriginBody;
use ::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH,
    CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED, LOCATION, VARY,
};
use ::http::uri::PathAndQuery;
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use file_body::{FileBody, Reader};
use larder_http::{SelectedPiece, UpstreamFailure, select};
use larder_static_files::{
    Accepts, Figures, FilesConfig, Opened, OpenedFile, RootError, Site, Tag,
};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Operations that open or read files of one root at once. Others wait, so a file system that hangs
/// holds so many threads of their own and no more. (The look at a file at a hit is on the request
/// thread: `check` is for such file systems.)
const OPERATIONS: usize = 64;

const X_CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// An extension of a response that the cache does not store: the file is larger than its objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotStored;

/// The files below a root.
pub(crate) struct FilesOrigin {
    site: Arc<Site>,
    /// `file:///srv/www`.
    name: String,
    operations: Arc<Semaphore>,
    /// Makes the boundaries of several ranges, which nobody can guess.
    boundaries: RandomState,
}

impl FilesOrigin {
    /// Opens the root.
    ///
    /// # Errors
    /// [`RootError`].
    pub(crate) fn open(config: &FilesConfig) -> Result<FilesOrigin, RootError> {
        Ok(FilesOrigin {
            name: name(config),
            site: Arc::new(Site::open(config.clone())?),
            operations: Arc::new(Semaphore::new(OPERATIONS)),
            boundaries: RandomState::new(),
        })
    }

    /// Returns its name: `file:///srv/www`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns its counters.
    pub(crate) fn figures(&self) -> Figures {
        self.site.figures()
    }

    /// Returns the time for which a stored response is used without a look at its file.
    pub(crate) fn check(&self) -> Duration {
        self.site.config().check
    }

    /// Returns the entity tag of the response to a GET now. It looks at files, and opens none.
    pub(crate) fn tag(&self, path: &str, fields: &HeaderMap) -> Option<Tag> {
        self.site.tag(path, accepts(fields))
    }

    /// Answers a request. Files with more than `most_stored` bytes are [`NotStored`].
    ///
    /// # Errors
    /// The file system did not answer within `limit`.
    pub(crate) async fn respond(
        &self,
        method: Method,
        target: &PathAndQuery,
        fields: HeaderMap,
        most_stored: u64,
        limit: Duration,
    ) -> Result<Response<OriginBody>, UpstreamFailure> {
        if method != Method::GET && method != Method::HEAD {
            let text = "larder: files have the methods GET and HEAD\n";
            let mut refusal = own_answer(StatusCode::METHOD_NOT_ALLOWED, text, &method);
            let allow = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allow);
            return Ok(refusal);
        }
        let boundary = self.boundaries.hash_one(target.as_str());
        let (site, operations) = (Arc::clone(&self.site), Arc::clone(&self.operations));
        let target = target.clone();
        let answered = async move {
            let permit = Arc::clone(&operations).acquire_owned().await.ok();
            let work = move || {
                let _permit = permit;
                let asking = Asking {
                    method,
                    target,
                    fields,
                    most_stored,
                    boundary,
                    operations,
                };
                asking.answer(&site)
            };
            // It panics or is cancelled only with the process.
            spawn_blocking(work).await
        };
        match tokio::time::timeout(limit, answered).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(UpstreamFailure::Unreachable),
            Err(_) => Err(UpstreamFailure::TimedOut),
        }
    }
}

/// Returns the name of an origin of files.
pub(crate) fn name(config: &FilesConfig) -> String {
    format!("file://{}", config.root.display())
}

/// Reads which codings a client accepts.
fn accepts(fields: &HeaderMap) -> Accepts {
    let mut lines = fields.get_all(ACCEPT_ENCODING).into_iter().peekable();
    if lines.peek().is_none() {
        return Accepts::default();
    }
    Accepts::of(lines.map(HeaderValue::as_bytes))
}

/// A request for a file.
struct Asking {
    method: Method,
    target: PathAndQuery,
    fields: HeaderMap,
    most_stored: u64,
    boundary: u64,
    operations: Arc<Semaphore>,
}

impl Asking {
    /// Opens the file and reads its beginning. It blocks.
    fn answer(self, site: &Site) -> Response<OriginBody> {
        let path = self.target.path();
        match site.find(path, accepts(&self.fields)) {
            Opened::File(file) => self.file(file),
            Opened::Redirect(mut target) => {
                if let Some(query) = self.target.query() {
                    target.push('?');
                    target.push_str(query);
                }
                let mut moved = own_answer(StatusCode::PERMANENT_REDIRECT, "", &self.method);
                if let Ok(target) = HeaderValue::try_from(target) {
                    moved.headers_mut().insert(LOCATION, target);
                }
                moved
            }
            Opened::NotFound(Some(page)) => self.page(page),
            Opened::NotFound(None) => {
                let text = "larder: there is no such file\n";
                own_answer(StatusCode::NOT_FOUND, text, &self.method)
            }
            Opened::Forbidden => {
                let text = "larder: this file is not served\n";
                own_answer(StatusCode::FORBIDDEN, text, &self.method)
            }
            Opened::Failed => {
                let text = "larder: the file system failed\n";
                own_answer(StatusCode::INTERNAL_SERVER_ERROR, text, &self.method)
            }
        }
    }

    /// Returns the whole file, or what the request's conditions and ranges select.
    fn file(self, file: OpenedFile) -> Response<OriginBody> {
        let size = file.meta.size;
        let mut headers = headers_of(&file);
        let value = HeaderValue::from_bytes(file.tag.as_bytes());
        headers.insert(ETAG, value.expect("a tag is visible ASCII"));
        let now = unix_seconds();
        // RFC 9110 §8.8.2.1: it is never later than the Date.
        let modified = file.meta.modified_seconds().min(now);
        headers.insert(LAST_MODIFIED, date(modified));
        headers.insert(DATE, date(now));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
        let varies = file.varies;
        let selected = select(&self.method, &self.fields, headers, size, self.boundary);
        let reader = Reader::new(file.file, file.meta);
        let mut response = respond(reader, selected.pieces, &self.operations);
        *response.status_mut() = selected.status;
        *response.headers_mut() = selected.headers;
        let nosniff = HeaderValue::from_static("nosniff");
        response
            .headers_mut()
            .insert(X_CONTENT_TYPE_OPTIONS, nosniff);
        if varies {
            let varies = HeaderValue::from_static("Accept-Encoding");
            response.headers_mut().insert(VARY, varies);
        }
        if size > self.most_stored {
            response.extensions_mut().insert(NotStored);
        }
        response
    }

    /// Returns the page of a 404. It has no validator: it is no representation of the target.
    fn page(self, page: OpenedFile) -> Response<OriginBody> {
        let size = page.meta.size;
        let mut headers = headers_of(&page);
        headers.remove(CACHE_CONTROL);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
        let pieces = if self.method == Method::HEAD {
            Vec::new()
        } else {
            vec![SelectedPiece::Part(0..size)]
        };
        let reader = Reader::new(page.file, page.meta);
        let mut response = respond(reader, pieces, &self.operations);
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.headers_mut() = headers;
        response
    }
}

/// Returns a response with these parts of a file, of which it reads the first.
fn respond(
    reader: Reader,
    pieces: Vec<SelectedPiece>,
    operations: &Arc<Semaphore>,
) -> Response<OriginBody> {
    if pieces.is_empty() {
        return Response::new(OriginBody::new(FileBody::text("")));
    }
    let mut body = FileBody::new(reader, pieces, Arc::clone(operations));
    body.read_first();
    Response::new(OriginBody::new(body))
}

/// Returns the fields that describe the content of a file.
fn headers_of(file: &OpenedFile) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12);
    // A type of the configuration may be no value of a field.
    if let Ok(value) = HeaderValue::try_from(&*file.content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    if let Some(coding) = file.coding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    if file.varies {
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if file.is_fallback {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    headers
}

/// Returns a short answer of the origin itself.
fn own_answer(status: StatusCode, text: &'static str, method: &Method) -> Response<OriginBody> {
    let body = if method == Method::HEAD { "" } else { text };
    let mut response = Response::new(OriginBody::new(FileBody::text(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    if !text.is_empty() {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(CONTENT_TYPE, plain);
    }
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// The last second that a date can state.
const END_OF_9999: u64 = 253_402_300_799;

fn date(unix_seconds: u64) -> HeaderValue {
    let time = UNIX_EPOCH + Duration::from_secs(unix_seconds.min(END_OF_9999));
    HeaderValue::try_from(httpdate::fmt_http_date(time)).expect("a date is visible ASCII")
}

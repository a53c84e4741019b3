//! The files of the page. They are part of the binary, hold no figures, and are served to
//! everybody.

use crate::admin_body::AdminBody;
use crate::admin_reply::of_body;
use ::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and content.
const FILES: [(&str, &str, &str); 8] = [
    ("/", HTML, include_str!("page/console.html")),
    (
        "/console/console.css",
        CSS,
        include_str!("page/console.css"),
    ),
    (
        "/console/icon.svg",
        "image/svg+xml",
        include_str!("page/icon.svg"),
    ),
    (
        "/console/console.js",
        SCRIPT,
        include_str!("page/console.js"),
    ),
    ("/console/charts.js", SCRIPT, include_str!("page/charts.js")),
    (
        "/console/elements.js",
        SCRIPT,
        include_str!("page/elements.js"),
    ),
    ("/console/panels.js", SCRIPT, include_str!("page/panels.js")),
    (
        "/console/what_if.js",
        SCRIPT,
        include_str!("page/what_if.js"),
    ),
];

/// The page runs no script and no style but its own files, and makes no element from text
/// (`require-trusted-types-for`, W3C Trusted Types): what clients send stays text.
const CONTENT_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                              object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const FRAME_OPTIONS: HeaderName = HeaderName::from_static("x-frame-options");

/// Returns the file at a path, if it is one of the page.
pub(super) fn file(path: &str) -> Option<Response<AdminBody>> {
    let (_, kind, content) = FILES.iter().find(|(of_file, ..)| *of_file == path)?;
    let mut response = of_body(
        StatusCode::OK,
        kind,
        AdminBody::whole(Bytes::from_static(content.as_bytes())),
    );
    protect(response.headers_mut());
    Some(response)
}

/// Sets the fields that keep other sites out.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (FRAME_OPTIONS, "DENY"),
        // Another version of the program has other files.
        (CACHE_CONTROL, "no-store"),
        (VARY, "accept"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

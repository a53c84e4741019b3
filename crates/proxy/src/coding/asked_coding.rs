//! The content coding that the client of a request gets, and what that makes of its response.

use ::http::header::{CONTENT_LENGTH, IF_NONE_MATCH};
use ::http::request::Parts;
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use larder_content_coding::{Effort, Encoder};
use larder_http::{
    AnswerCoding, Compression, ContentCoding, code_fields, names_coded_form, vary_by_coding,
    weaken_tag,
};
use std::sync::Arc;

/// What a request says of codings, before the cache and the origin see it.
pub(crate) struct AskedCoding {
    compression: Arc<Compression>,
    /// The one that the client gets.
    pub(crate) coding: Option<ContentCoding>,
    /// True if the client may get gzip in its place.
    accepts_gzip: bool,
    /// The representations that the client has.
    if_none_match: Vec<HeaderValue>,
    is_head: bool,
}

impl AskedCoding {
    pub(crate) fn new(compression: &Arc<Compression>, request: &Parts) -> AskedCoding {
        // HTTP/1.0 has no chunks: a body without a length would end its connection.
        let is_coded = request.version != Version::HTTP_10
            && matches!(request.method, Method::GET | Method::HEAD | Method::POST);
        let coding = compression.chosen_by(&request.headers);
        AskedCoding {
            coding: coding.filter(|_| is_coded),
            accepts_gzip: coding.is_some()
                && compression.allows(ContentCoding::Gzip, &request.headers),
            compression: Arc::clone(compression),
            if_none_match: request
                .headers
                .get_all(IF_NONE_MATCH)
                .iter()
                .cloned()
                .collect(),
            is_head: request.method == Method::HEAD,
        }
    }

    /// Returns it for a request whose response gets no coding. A 304 for a client that has a coded
    /// form all the same keeps the weak tag.
    pub(crate) fn exempt(self) -> AskedCoding {
        AskedCoding {
            coding: None,
            accepts_gzip: false,
            ..self
        }
    }

    /// Changes the fields of a response to those of the form that the client gets. Returns the
    /// encoder of its body, if that is coded while it is sent. `length` is that of the body, if it
    /// is known; `says` is what the cache knows; `may_encode` is asked before an encoder of a
    /// coding is made. If it says no, gzip is tried, whose encoders are small.
    pub(crate) fn apply(
        &self,
        status: StatusCode,
        headers: &mut HeaderMap,
        length: Option<u64>,
        says: &AnswerCoding,
        mut may_encode: impl FnMut(ContentCoding) -> bool,
    ) -> Option<Encoder> {
        if status == StatusCode::NOT_MODIFIED {
            // The client has a coded form: with a strong tag, it would join parts of the response
            // as it came to that form.
            if names_coded_form(&self.if_none_match, headers) {
                weaken_tag(headers);
                vary_by_coding(headers);
            }
            return None;
        }
        if let AnswerCoding::Form(_) = says {
            // Rules may have changed them since.
            weaken_tag(headers);
            vary_by_coding(headers);
            return None;
        }
        let length = declared_length(headers).or(length);
        if *says == AnswerCoding::Decided || !self.compression.may_code(status, headers, length) {
            return None;
        }
        vary_by_coding(headers);
        let coding = self.coding?;
        if self.is_head {
            code_fields(headers, coding);
            return None;
        }
        let gzip = Some(ContentCoding::Gzip).filter(|_| self.accepts_gzip);
        let coding = Some(coding)
            .filter(|coding| may_encode(*coding))
            .or_else(|| gzip.filter(|gzip| *gzip != coding && may_encode(*gzip)))?;
        let encoder = Encoder::new(coding, Effort::Streaming).ok()?;
        code_fields(headers, coding);
        Some(encoder)
    }
}

/// Returns the length that a response declares: that of HEAD has no body.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

//! What the cache has of one URL, for the console.

use crate::proxy::Proxy;
use crate::rules::Explanation;
use crate::shards::Next;
use ::http::header::{ACCEPT_ENCODING, AGE, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY};
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use larder_http::RequestHead;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// `Accept-Encoding` of the requests by which variants are found.
const CODINGS: [&str; 4] = ["identity", "gzip", "br", "zstd"];

/// Returns what is stored under a URL, its freshness, and the rules that match. Stored variants are
/// found by requests with `only-if-cached`, one for each coding, which count as requests.
///
/// # Errors
/// One line if the text is no URL.
pub(crate) fn look_up(proxy: &Arc<Proxy>, text: &str) -> Result<Value, String> {
    let example = || format!("{text:?} is no URL such as http://host/path");
    let uri: Uri = text.parse().map_err(|_| example())?;
    let scheme = match uri.scheme_str() {
        Some("http") => "http",
        Some("https") => "https",
        _ => return Err(example()),
    };
    let authority = uri.authority().ok_or_else(example)?.as_str();
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let explanation = proxy.rules().explain(&uri);
    let keyed = explanation.as_ref().and_then(|explanation| explanation.key.parse::<Uri>().ok());
    let keyed = keyed.as_ref().and_then(Uri::path_and_query).map_or(target, |keyed| keyed.as_str());
    let mut variants: Vec<(HeaderMap, String)> = Vec::new();
    for coding in CODINGS {
        if let Some(headers) = stored(proxy, (scheme, authority, keyed), coding) {
            let line = describe(&headers);
            if variants.iter().all(|(_, known)| *known != line) {
                variants.push((headers, line));
            }
        }
    }
    let mut found = Map::new();
    found.insert("URL".to_owned(), json!(text));
    let lines: Vec<&str> = variants.iter().map(|(_, line)| line.as_str()).collect();
    let is_stored = if lines.is_empty() { json!("nothing in memory") } else { json!(lines) };
    found.insert("stored".to_owned(), is_stored);
    if let Some(vary) = variants.iter().find_map(|(headers, _)| headers.get(VARY)) {
        found.insert("variants differ by".to_owned(), json!(String::from_utf8_lossy(vary.as_bytes())));
    }
    let sampled = proxy.observers().current().content().of_url(text);
    if let Some((hits, requests)) = sampled {
        found.insert("hits".to_owned(), json!(format!("{hits} of {requests} requests in the sample")));
    }
    found.insert("rules".to_owned(), explanation.map_or(json!("none"), |explanation| rules(&explanation)));
    Ok(Value::Object(found))
}

/// Returns the head of the stored response to a request with this `Accept-Encoding`.
fn stored(
    proxy: &Arc<Proxy>,
    (scheme, authority, target): (&str, &str, &str),
    coding: &'static str,
) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("only-if-cached, max-stale"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(coding));
    proxy.codings().reduce(&mut headers);
    let method = Method::HEAD;
    let head = RequestHead {
        method: &method,
        scheme,
        authority,
        target,
        version: Version::HTTP_11,
        headers: &headers,
        has_body: false,
    };
    match proxy.shards().step(&head) {
        Next::Answer(answer) if answer.status != StatusCode::GATEWAY_TIMEOUT => Some(answer.headers),
        Next::Refresh(answer, _) => Some(answer.headers),
        Next::Assemble(assembly) => Some(assembly.into_parts().1),
        // The handles of the other steps go back to the cache.
        _ => None,
    }
}

fn describe(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).map(|value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()));
    let ttl = text("cache-status".parse().unwrap_or(AGE));
    let ttl =
        ttl.as_deref().and_then(|field| field.rsplit("ttl=").next()?.split(';').next()?.trim().parse::<i64>().ok());
    let freshness = match ttl {
        Some(ttl @ 0..) => format!("fresh for {ttl} s"),
        Some(ttl) => format!("stale since {} s", -ttl),
        None => "of unknown freshness".to_owned(),
    };
    let mut line = freshness;
    for (name, label) in
        [(AGE, "age"), (CONTENT_LENGTH, "bytes"), (CONTENT_TYPE, "type"), (CONTENT_ENCODING, "coding"), (ETAG, "ETag")]
    {
        if let Some(value) = text(name) {
            line.push_str(&format!(", {label} {value}"));
        }
    }
    line
}

fn rules(explanation: &Explanation) -> Value {
    let lines = explanation.rules.iter().map(|rule| {
        let conditions = if rule.conditions.is_empty() { "always".to_owned() } else { rule.conditions.join(", ") };
        format!("rule {}: {conditions}: {}", rule.number, rule.sets.join(", "))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { json!("none") } else { json!(lines) }
}

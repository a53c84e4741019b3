//! What the cache has of one URL, for the console.

use crate::base::limits;
use crate::cache::disk_tier;
use crate::exchange::proxy::Proxy;
use crate::exchange::request_rules::NormalUrl;
use crate::rules::Explanation;
use ::http::Uri;
use ::http::header::{CONTENT_ENCODING, CONTENT_TYPE, ETAG};
use larder_http::StoredVariant;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

/// A URL, in the parts of its key: scheme, authority, and path with query.
type KeyParts<'a> = (&'a str, &'a str, &'a str);

/// Returns what is stored under a URL in memory and on disk, its freshness, and the rules that
/// match. Nothing counts as a request.
///
/// # Errors
/// One line if the text is no URL.
pub(crate) async fn look_up(proxy: &Proxy, text: &str) -> Result<Value, String> {
    let url = NormalUrl::new(text).map_err(|reason| format!("{text:?}: {reason}"))?;
    let (scheme, authority) = (url.scheme, &*url.authority);
    let explanation = proxy.live().explain(&url);
    let keyed = explanation
        .as_ref()
        .and_then(|explanation| explanation.key.parse::<Uri>().ok());
    let keyed = keyed
        .as_ref()
        .and_then(Uri::path_and_query)
        .map_or(&*url.target, |keyed| keyed.as_str());
    let key = (scheme, authority, keyed);
    let in_memory = proxy.shards().variants(scheme, authority, keyed);
    let on_disk = on_disk(proxy, key).await;
    let mut found = Map::new();
    found.insert("URL".to_owned(), json!(text));
    found.insert(
        "stored".to_owned(),
        stored(&in_memory, &on_disk, proxy.disk().is_some()),
    );
    let sampled = proxy
        .observers()
        .current()
        .content()
        .of_url(&url.to_string());
    if let Some((hits, requests)) = sampled {
        found.insert(
            "hits".to_owned(),
            json!(format!("{hits} of {requests} requests in the sample")),
        );
    }
    found.insert(
        "rules".to_owned(),
        explanation.map_or(json!("none"), |explanation| rules(&explanation)),
    );
    Ok(Value::Object(found))
}

/// Reads the responses to a URL from the disk tier. A disk that hangs ends the search.
async fn on_disk(proxy: &Proxy, key: KeyParts<'_>) -> Vec<StoredVariant> {
    let Some(disk) = proxy.disk() else {
        return Vec::new();
    };
    let (scheme, authority, target) = key;
    let tier_key = proxy.shards().tier_key(scheme, authority, target);
    let variants = disk.with(|log, _| log.tags(&tier_key, limits::CONSOLE_TIER_VARIANTS));
    let mut found = Vec::new();
    let read = async {
        for variant in variants {
            let tier_hit =
                disk_tier::tier_lookup(disk, &tier_key, Some(variant), proxy.budget()).await;
            found.extend(
                tier_hit.and_then(|tier_hit| proxy.shards().variant_in_tier(key, tier_hit)),
            );
        }
    };
    // The variants that were read by then are shown.
    let _ = timeout(larder_tier_host::limits::DISK_PATIENCE, read).await;
    found
}

/// Returns a line for each variant, with its places.
fn stored(in_memory: &[StoredVariant], on_disk: &[StoredVariant], has_disk: bool) -> Value {
    let is_in = |of: &[StoredVariant], variant| of.iter().any(|other| other.variant == variant);
    let of_memory = in_memory.iter().map(|variant| {
        let place = if is_in(on_disk, variant.variant) {
            "in memory and on disk"
        } else {
            "in memory"
        };
        describe(variant, place)
    });
    let of_disk = on_disk
        .iter()
        .filter(|variant| !is_in(in_memory, variant.variant));
    let lines: Vec<String> = of_memory
        .chain(of_disk.map(|variant| describe(variant, "on disk")))
        .collect();
    match (lines.is_empty(), has_disk) {
        (false, _) => json!(lines),
        (true, false) => json!("nothing in memory"),
        (true, true) => json!("nothing in memory or on disk"),
    }
}

fn describe(variant: &StoredVariant, place: &str) -> String {
    let StoredVariant {
        status,
        headers,
        age,
        ttl_seconds,
        length,
        is_sliced,
        ..
    } = variant;
    let freshness = match ttl_seconds {
        ttl @ 0.. => format!("fresh for {ttl} s"),
        ttl => format!("stale since {} s", -ttl),
    };
    let form = if *is_sliced {
        "bytes in slices"
    } else {
        "bytes"
    };
    let mut line = format!(
        "{freshness}, {place}, status {}, age {} s, {form} {length}",
        status.as_u16(),
        age.as_secs()
    );
    for (name, label) in [
        (CONTENT_TYPE, "type"),
        (CONTENT_ENCODING, "coding"),
        (ETAG, "ETag"),
    ] {
        if let Some(value) = headers.get(name) {
            line.push_str(&format!(
                ", {label} {}",
                String::from_utf8_lossy(value.as_bytes())
            ));
        }
    }
    for (name, value) in &variant.selected_by {
        line.push_str(&match value {
            Some(value) => format!(", for {name}: {value}"),
            None => format!(", for requests without {name}"),
        });
    }
    line
}

fn rules(explanation: &Explanation) -> Value {
    let lines: Vec<String> = explanation.rules.iter().map(ToString::to_string).collect();
    if lines.is_empty() {
        json!("none")
    } else {
        json!(lines)
    }
}

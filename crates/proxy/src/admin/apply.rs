//! Runs another policy and size, until the next reload or restart: `POST /console/apply`.

use crate::exchange::proxy::Proxy;
use larder_policy::Spec;
use larder_units::ByteSize;
use serde::Deserialize;
use serde_json::{Value, json};

/// The body of the request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    policy: String,
    /// In bytes.
    capacity: u64,
}

/// Reconfigures the cache as a reload does. Returns the lines that a configuration needs for the
/// same.
///
/// # Errors
/// One line if the body is no such choice, or the policy or the size cannot run. Nothing has
/// changed then.
pub(crate) fn apply(proxy: &Proxy, body: &[u8]) -> Result<Value, String> {
    let Choice { policy, capacity } =
        serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let policy: Spec = policy.parse().map_err(|error| format!("{error}"))?;
    let capacity = ByteSize::from_bytes(capacity);
    if let Some(memory) = larder_host::memory().filter(|memory| capacity > *memory) {
        return Err(format!(
            "this process may have {memory} of memory (machine, or cgroup), less than {capacity}"
        ));
    }
    let applied = proxy
        .cache_settings()
        .try_other(proxy.shards(), policy.clone(), capacity);
    applied.map_err(|error| format!("{policy}: {error}"))?;
    tracing::warn!(%policy, %capacity, "the console runs another policy or size than the configuration, until a reload");
    Ok(json!({ "lines": format!("[http]\ncache = \"{capacity}\"\npolicy = \"{policy}\"") }))
}

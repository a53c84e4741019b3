//! Tries the bucket of the third tier as the node uses it, within a short time.

use super::{Finding, Level, Topic};
use crate::config::Config;
use larder_object_host::{Probe, probe};
use std::time::Duration;

/// The time for all requests together.
const TIME: Duration = Duration::from_secs(8);

const SETTING: &str = "[http.object_store] url";

pub(super) fn finding(config: &Config) -> Option<Finding> {
    let proxy = &config.http.proxy;
    let store = proxy
        .object_store
        .as_ref()
        .filter(|_| config.http.enabled)?;
    let url = &store.url;
    let problem = match probe(store, TIME) {
        Ok(Probe::Works(took)) if took > store.wait => {
            let text = format!("{url} works, but a read took {took:.0?}");
            let remedy = "a longer [http.object_store] wait, or a store nearer to the node";
            return Some(Finding::new(
                Level::Warning,
                Topic::ObjectStore,
                "[http.object_store] wait",
                text,
                remedy,
            ));
        }
        Ok(Probe::Works(took)) => {
            let text =
                format!("{url} can be written, read, listed and emptied; a read took {took:.0?}");
            return Some(Finding::ok(Topic::ObjectStore, SETTING, text));
        }
        Ok(Probe::Failed(step, reason)) => format!("{url}: {step}: {reason}"),
        // The check of the configuration has said it.
        Err(_) => return None,
    };
    let remedy = "mend the URL, the region or the credentials, or the rights of their owner (PutObject, \
                  GetObject, ListBucket, DeleteObject); until then, the origin is asked";
    Some(Finding::new(
        Level::Warning,
        Topic::ObjectStore,
        SETTING,
        problem,
        remedy,
    ))
}

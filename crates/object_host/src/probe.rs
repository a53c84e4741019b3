//! Tries a bucket as the node uses it: writes, reads, lists and removes an object.

use crate::client;
use crate::config::ObjectStoreConfig;
use crate::error::Error;
use crate::names;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// What a bucket did.
#[derive(Debug)]
pub enum Probe {
    /// All of it, and a read took so long.
    Works(Duration),
    /// It failed at this step, for this reason.
    Failed(&'static str, String),
}

/// Tries the bucket, within a time.
///
/// # Errors
/// [`Error`], a line: it was not tried.
pub fn probe(config: &ObjectStoreConfig, within: Duration) -> Result<Probe, Error> {
    let store = client::store(config)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Error::Thread)?;
    Ok(runtime.block_on(tried(&store, &config.url.prefix, within)))
}

async fn tried(store: &impl ObjectStore, prefix: &str, within: Duration) -> Probe {
    let mut step = "it cannot be written";
    let all = async {
        let path = names::probe(prefix);
        let bytes = Bytes::from_static(b"written by larder doctor");
        store.put(&path, PutPayload::from(bytes.clone())).await?;
        step = "it cannot be read";
        let begun = Instant::now();
        let read = store.get(&path).await?.bytes().await?;
        let took = begun.elapsed();
        step = "its objects cannot be listed";
        if let Some(listed) = store.list(Some(&names::filters(prefix))).next().await {
            listed?;
        }
        step = "its objects cannot be removed";
        store.delete(&path).await?;
        Ok::<_, object_store::Error>((read == bytes).then_some(took))
    };
    let done = timeout(within, all).await;
    match done {
        Ok(Ok(Some(took))) => Probe::Works(took),
        Ok(Ok(None)) => Probe::Failed(
            "it cannot be read",
            "it returns other bytes than were written".to_owned(),
        ),
        Ok(Err(error)) => Probe::Failed(step, one_line(&error)),
        Err(_) => Probe::Failed(step, format!("no answer within {within:?}")),
    }
}

/// Returns an error with its causes in one line.
fn one_line(error: &object_store::Error) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;

    #[test]
    fn a_bucket_is_tried() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let store = InMemory::new();
        let probed = runtime.block_on(tried(&store, "site", Duration::from_secs(5)));
        assert!(matches!(probed, Probe::Works(_)), "{probed:?}");
        let left = runtime.block_on(store.list(None).count());
        assert_eq!(left, 0);
        let config = ObjectStoreConfig {
            endpoint: Some("http://127.0.0.1:1".to_owned()),
            ..ObjectStoreConfig::new("s3://bucket".parse().unwrap())
        };
        // Without credentials, the role of the machine would be asked.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        std::fs::write(&path, "aws_access_key_id=a\naws_secret_access_key=b\n").unwrap();
        let config = ObjectStoreConfig {
            credentials: Some(path),
            ..config
        };
        let Probe::Failed(step, reason) = probe(&config, Duration::from_secs(5)).unwrap() else {
            panic!("nobody listens there");
        };
        assert_eq!(step, "it cannot be written");
        assert!(!reason.contains('\n'), "{reason}");
    }
}

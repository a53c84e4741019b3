//! The settings that the cache runs with: those of the configuration, or another policy and size
//! that the console tries until the next reload.

use crate::cache::shards::Shards;
use larder_http::Config;
use larder_policy::{Spec, SpecError};
use larder_units::{ByteSize, Streams};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The settings. One change of them at a time is carried out.
#[derive(Default)]
pub(crate) struct CacheSettings(Mutex<Settings>);

#[derive(Default)]
struct Settings {
    configured: Option<Config>,
    tried: Option<(Spec, ByteSize)>,
}

impl CacheSettings {
    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the settings that the cache was created with.
    pub(crate) fn start(&self, config: Config) {
        self.lock().configured = Some(config);
    }

    /// Runs the cache with those of another configuration.
    ///
    /// # Errors
    /// As [`Shards::reconfigure`]. Nothing has changed then.
    pub(crate) fn reload(&self, shards: &Shards, config: Config) -> Result<(), SpecError> {
        let mut settings = self.lock();
        reconfigure(shards, &config)?;
        *settings = Settings {
            configured: Some(config),
            tried: None,
        };
        Ok(())
    }

    /// Runs the cache with another policy and size.
    ///
    /// # Errors
    /// As [`Shards::reconfigure`]. Nothing has changed then.
    pub(crate) fn try_other(
        &self,
        shards: &Shards,
        policy: Spec,
        capacity: ByteSize,
    ) -> Result<(), SpecError> {
        let mut settings = self.lock();
        let Some(configured) = settings.configured.clone() else {
            return Ok(());
        };
        let is_configured = configured.policy == policy && configured.capacity == capacity;
        reconfigure(
            shards,
            &Config {
                policy: policy.clone(),
                capacity,
                ..configured
            },
        )?;
        settings.tried = (!is_configured).then_some((policy, capacity));
        Ok(())
    }

    /// Returns the policy and the size that are tried, if they are not those of the configuration.
    pub(crate) fn tried(&self) -> Option<(Spec, ByteSize)> {
        self.lock().tried.clone()
    }
}

fn reconfigure(shards: &Shards, config: &Config) -> Result<(), SpecError> {
    let [seed] = larder_host::entropy::words();
    shards.reconfigure(config, &Streams::new(seed))
}

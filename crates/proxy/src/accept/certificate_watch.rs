//! Reads the files of TLS again when they change, as ACME clients and cert-manager change them.

use crate::accept::tls::Identity;
use crate::base::limits;
use crate::config::tls_config::TlsConfig;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// The files' times of change and sizes; `None` for a file that cannot be read.
type Stamps = Vec<Option<(SystemTime, u64)>>;

/// Watches the files of an identity.
pub(crate) struct CertificateWatch {
    identity: Arc<Identity>,
    /// The configuration and the stamps of the files that were read last, with or without success.
    read: (TlsConfig, Stamps),
    /// The stamps at the last look.
    seen: Stamps,
}

impl CertificateWatch {
    fn new(identity: Arc<Identity>) -> CertificateWatch {
        let config = identity.config();
        let stamps = stamps(&config);
        CertificateWatch {
            identity,
            read: (config, stamps.clone()),
            seen: stamps,
        }
    }

    /// Watches an identity, from the time when there is one, as long as it is polled.
    pub(crate) async fn watch(identity: Arc<OnceLock<Arc<Identity>>>) {
        while identity.get().is_none() {
            tokio::time::sleep(limits::CERTIFICATES_LOOK).await;
        }
        if let Some(identity) = identity.get() {
            CertificateWatch::new(Arc::clone(identity)).run().await;
        }
    }

    async fn run(mut self) {
        loop {
            tokio::time::sleep(limits::CERTIFICATES_LOOK).await;
            // Files may be on a slow disk, and a request must not wait for it.
            let look = tokio::task::spawn_blocking(move || {
                self.look();
                self
            });
            match look.await {
                Ok(watch) => self = watch,
                Err(error) => return tracing::error!(%error, "certificates are not watched"),
            }
        }
    }

    /// Reads the files if they have changed, and have not changed any more since the last look:
    /// certificate and key change one after the other. If they are broken, the old ones stay.
    fn look(&mut self) {
        let config = self.identity.config();
        let now = stamps(&config);
        // A reload of the configuration has read other files. They are read once more: they may
        // have changed between the reload and this look.
        if config != self.read.0 {
            (self.read, self.seen) = ((config, Stamps::new()), now);
            return;
        }
        let is_settled = std::mem::replace(&mut self.seen, now.clone()) == now;
        if now == self.read.1 || !is_settled {
            return;
        }
        match self.identity.read_again(&config) {
            Ok(server) => {
                self.identity.set(&config, server);
                tracing::info!(
                    certificate = %name(&config),
                    "certificates have changed: new connections use them"
                );
            }
            Err(error) => {
                let certificate = name(&config);
                tracing::error!(%certificate, %error, "changed certificates cannot be used: the old ones stay");
            }
        }
        self.read.1 = now;
    }
}

/// Returns the file that a line of the log names.
fn name(config: &TlsConfig) -> String {
    let file = config.files().into_iter().next();
    file.map_or_else(String::new, |path| path.display().to_string())
}

fn stamps(config: &TlsConfig) -> Stamps {
    let stamp = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    config.files().into_iter().map(stamp).collect()
}

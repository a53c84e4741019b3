//! Structured logs, on standard error.

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

/// Changes the level of the process's log.
static SET_LEVEL: OnceLock<Box<dyn Fn(Level) + Send + Sync>> = OnceLock::new();

/// Installs the process's log; a second call does nothing.
pub fn init(config: &LogConfig) {
    let builder = tracing_subscriber::fmt().with_target(false).with_writer(std::io::stderr);
    let builder = builder.with_env_filter(filter(config.level));
    // `try_init` fails only if a log has been installed before.
    match config.format {
        LogFormat::Text => {
            let builder = builder.with_ansi(std::io::stderr().is_terminal()).with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.finish().try_init().is_ok() {
                let _ = SET_LEVEL.set(Box::new(move |level| drop(handle.reload(filter(level)))));
            }
        }
        LogFormat::Json => {
            let builder = builder.json().with_filter_reloading();
            let handle = builder.reload_handle();
            if builder.finish().try_init().is_ok() {
                let _ = SET_LEVEL.set(Box::new(move |level| drop(handle.reload(filter(level)))));
            }
        }
    }
}

/// Changes the level of the log that [`init`] has installed.
pub(crate) fn set_level(level: Level) {
    if let Some(set_level) = SET_LEVEL.get() {
        set_level(level);
    }
}

fn filter(level: Level) -> EnvFilter {
    EnvFilter::new(level.as_str().to_ascii_lowercase())
}

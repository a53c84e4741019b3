//! Structured logs, on standard error.

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// The level and the format of the log.
type Output = Box<dyn Layer<Registry> + Send + Sync>;

/// Replaces the output of the process's log.
static OUTPUT: OnceLock<reload::Handle<Output, Registry>> = OnceLock::new();

/// Installs the process's log; a second call does nothing.
pub fn init(config: &LogConfig) {
    let (layer, handle) = reload::Layer::new(output(config));
    // Fails only if a log has been installed before.
    if tracing_subscriber::registry()
        .with(layer)
        .try_init()
        .is_ok()
    {
        let _ = OUTPUT.set(handle);
    }
}

/// Changes the level and the format of the log that [`init`] has installed.
pub(crate) fn set(config: &LogConfig) {
    if let Some(handle) = OUTPUT.get() {
        // Fails only if the log is gone, and it stays as long as the process.
        let _ = handle.reload(output(config));
    }
}

fn output(config: &LogConfig) -> Output {
    let lines = fmt::layer().with_target(false).with_writer(std::io::stderr);
    let level = LevelFilter::from_level(config.level);
    // At `info`, it logs each connection in words of its own, and Larder logs the state.
    let of_nats = match level {
        LevelFilter::INFO => LevelFilter::WARN,
        level => level,
    };
    let level = Targets::new()
        .with_default(level)
        .with_target("async_nats", of_nats);
    match config.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .and_then(level)
            .boxed(),
        LogFormat::Json => lines.json().and_then(level).boxed(),
    }
}

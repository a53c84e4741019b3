//! Structured logs, on standard error.

use crate::config::{LogConfig, LogFormat};
use std::io::IsTerminal;

/// Installs the process's log; a second call does nothing.
pub fn init(config: &LogConfig) {
    let builder =
        tracing_subscriber::fmt().with_max_level(config.level).with_target(false).with_writer(std::io::stderr);
    // Fails only if a log has been installed before.
    let _ = match config.format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

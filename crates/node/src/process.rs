//! The process of the node, for its status page and metrics.

use larder_admin::{Metrics, StatusSource};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The process and its configuration file, so that a client can tell which node answers. Its
/// metrics have the names of Prometheus' own client libraries.
pub(crate) struct Process {
    configuration: Option<PathBuf>,
    started: SystemTime,
    /// Keys that differ from the defaults: key, value, default and place.
    settings: Mutex<Vec<[String; 4]>>,
}

impl Process {
    pub(crate) fn new(configuration: Option<PathBuf>) -> Process {
        Process {
            configuration,
            started: SystemTime::now(),
            settings: Mutex::default(),
        }
    }

    /// Sets what the console shows as the settings.
    pub(crate) fn set_settings(&self, settings: Vec<[String; 4]>) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}

impl StatusSource for Process {
    fn name(&self) -> &'static str {
        "node"
    }

    fn status(&self) -> Value {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        json!({
            "pid": std::process::id(),
            "configuration": self.configuration,
            "resident_bytes": figure(&status, "VmRSS:").map(|kib| kib * 1024.0),
            "cpu_seconds": cpu_seconds(),
            "open_files": open_files(),
            "open_files_most": getrlimit(Resource::Nofile).current,
        })
    }

    fn console(&self) -> (Value, Value) {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let setting = |[key, value, default, place]: &[String; 4]| json!({ "key": key, "value": value, "default": default, "place": place });
        (
            self.status(),
            json!({ "settings": settings.iter().map(setting).collect::<Vec<_>>() }),
        )
    }

    fn metrics(&self, metrics: &mut Metrics<'_, '_>) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let sizes = [
            (
                "process_resident_memory_bytes",
                "Memory of the process that is in RAM",
                "VmRSS:",
                1024.0,
            ),
            (
                "process_virtual_memory_bytes",
                "Address space of the process",
                "VmSize:",
                1024.0,
            ),
            ("process_threads", "Threads of the process", "Threads:", 1.0),
        ];
        for (name, help, field, unit) in sizes {
            if let Some(value) = figure(&status, field) {
                metrics.gauge(name, help, value * unit);
            }
        }
        metrics.seconds(
            "process_cpu_seconds",
            "Processor time of all threads, user and system",
            cpu_seconds(),
        );
        if let Some(open) = open_files() {
            metrics.gauge("process_open_fds", "Open file descriptors", open as f64);
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            metrics.gauge(
                "process_max_fds",
                "The limit of open file descriptors",
                most as f64,
            );
        }
        let started = self
            .started
            .duration_since(UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64());
        metrics.gauge(
            "process_start_time_seconds",
            "The start of the process, since 1970",
            started,
        );
    }
}

fn cpu_seconds() -> f64 {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

fn open_files() -> Option<usize> {
    // The directory that is being read is one of them.
    std::fs::read_dir("/proc/self/fd")
        .ok()
        .map(|open| open.count().saturating_sub(1))
}

/// Returns the number behind a field of `/proc/self/status`.
fn figure(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

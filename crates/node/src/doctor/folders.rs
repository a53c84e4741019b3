//! The room for disk tiers, and the file systems of the configured folders.

use super::{Finding, Level, Topic};
use crate::config::Config;
use larder_proxy::access_log::LogTarget;
use larder_tier_host::DiskConfig;
use larder_units::rounded;
use rustix::fs::{Access, access, statfs};
use std::path::{Path, PathBuf};

/// Kinds of file systems by their numbers in `statfs(2)`, with what that means for a disk tier.
const KINDS: [(u32, &str, &str); 6] = [
    (
        0x0102_1994,
        "tmpfs",
        "it is memory, and empty after a restart of the machine",
    ),
    (
        0x8584_58f6,
        "ramfs",
        "it is memory, and empty after a restart of the machine",
    ),
    (
        0x0000_6969,
        "NFS",
        "it is slower than an origin nearby, and a server that hangs stops the tier",
    ),
    (
        0xff53_4d42,
        "CIFS",
        "it is slower than an origin nearby, and a server that hangs stops the tier",
    ),
    (
        0x6573_5546,
        "FUSE",
        "each read passes a program; it may be slower than an origin nearby",
    ),
    (
        0x794c_7630,
        "overlayfs",
        "it is the container's own layer, and gone with the container",
    ),
];

/// Bytes below which the folder of a log is nearly full.
const LOG_LEAST_BYTES: u64 = 256 << 20;

/// Looks at disk tiers, the access log and the folder of ACME.
pub(super) fn findings(config: &Config, problems: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_named = |setting: &str| problems.iter().any(|problem| problem.starts_with(setting));
    let tiers = [
        (
            "[http.disk] path",
            config
                .http
                .proxy
                .disk
                .as_ref()
                .filter(|_| config.http.enabled),
        ),
        (
            "[ndn.disk] path",
            config.ndn.disk.as_ref().filter(|_| config.ndn.enabled),
        ),
    ];
    for (setting, tier) in tiers {
        if let Some(tier) = tier.filter(|_| !is_named(setting)) {
            findings.push(room(setting, tier));
            findings.extend(file_system(setting, &tier.path));
        }
    }
    if let Some(log) = &config.http.proxy.access_log
        && let LogTarget::File(path) = &log.target
        && config.http.enabled
        && !is_named("[http.access_log]")
    {
        findings.push(log_room(path));
    }
    let acme = config
        .http
        .proxy
        .tls
        .as_ref()
        .and_then(|tls| tls.acme.as_ref());
    if let Some(acme) = acme.filter(|_| config.http.enabled)
        && !is_named("[http.tls.acme] folder")
    {
        let folder = nearest(&acme.folder);
        let place = "[http.tls.acme] folder";
        findings.push(match access(&folder, Access::WRITE_OK) {
            Ok(()) if folder == acme.folder => Finding::ok(
                Topic::Certificates,
                place,
                format!("{} can be written", folder.display()),
            ),
            Ok(()) => Finding::ok(
                Topic::Certificates,
                place,
                format!("{} will be created", acme.folder.display()),
            ),
            Err(_) => Finding::new(
                Level::Note,
                Topic::Certificates,
                place,
                format!("this user cannot write to {}", folder.display()),
                "the user of the node has to; run this as that user or as root",
            ),
        });
    }
    findings
}

/// Says how much room there is for a tier. That there is enough is checked before, as at a start.
fn room(setting: &str, tier: &DiskConfig) -> Finding {
    let folder = nearest(&tier.path);
    let Ok(system) = statfs(&folder) else {
        let text = format!("{}: its file system tells nothing", folder.display());
        return Finding::new(Level::Note, Topic::Disk, setting, text, "");
    };
    let free = system
        .f_bavail
        .saturating_mul(system.f_bsize.unsigned_abs());
    let shown = |bytes: u64| rounded::bytes(bytes as f64);
    let path = tier.path.display();
    let text = format!(
        "{path}: room for {}, {} are free",
        tier.capacity,
        shown(free)
    );
    Finding::ok(Topic::Disk, setting, text)
}

/// Names a file system that is hardly meant for a disk tier.
fn file_system(setting: &str, path: &Path) -> Option<Finding> {
    let kind = statfs(nearest(path)).ok()?.f_type as u32;
    let (_, name, what) = KINDS.iter().find(|(number, ..)| *number == kind)?;
    Some(Finding::new(
        Level::Note,
        Topic::Disk,
        setting,
        format!("{} is on {name}: {what}", path.display()),
        "a tier belongs on a local disk",
    ))
}

fn log_room(path: &Path) -> Finding {
    let setting = "[http.access_log] path";
    let folder = nearest(path);
    let free = statfs(&folder).map(|system| {
        system
            .f_bavail
            .saturating_mul(system.f_bsize.unsigned_abs())
    });
    match free {
        Ok(free) if free < LOG_LEAST_BYTES => Finding::new(
            Level::Warning,
            Topic::Disk,
            setting,
            format!(
                "{}: {} are free",
                path.display(),
                rounded::bytes(free as f64)
            ),
            "lines are lost when the disk is full: free some, or set max_size and keep",
        ),
        _ => Finding::ok(
            Topic::Disk,
            setting,
            format!("{} can be written", path.display()),
        ),
    }
}

/// Returns the path, or the nearest folder above it that exists.
fn nearest(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = whole.ancestors().find(|ancestor| ancestor.exists());
    existing.map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

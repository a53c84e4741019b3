//! Runs another policy and size, until the next reload or restart: `POST /console/apply`.

use crate::exchange::proxy::Proxy;
use larder_policy::Spec;
use larder_units::ByteSize;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;

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
    if let Some(memory) = memory(Path::new("/")).filter(|memory| capacity.bytes() > *memory) {
        let memory = ByteSize::from_bytes(memory);
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

/// Returns the bytes of memory that the process may have: those of the machine (proc(5),
/// `MemTotal`), or the least limit of its cgroup and of those above it (cgroup v2, `memory.max`),
/// as far as Linux tells them. `root` is the root of the file system.
fn memory(root: &Path) -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(&root.join("proc/meminfo")).and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    });
    let cgroups = root.join("sys/fs/cgroup");
    let own = read(&root.join("proc/self/cgroup"));
    let own = own
        .iter()
        .flat_map(|text| text.lines())
        .find_map(|line| line.strip_prefix("0::/"));
    let own = own.map(|path| cgroups.join(path));
    let above = own
        .iter()
        .flat_map(|own| own.ancestors())
        .take_while(|folder| folder.starts_with(&cgroups));
    // A cgroup without a limit says "max".
    let limits = above.filter_map(|folder| read(&folder.join("memory.max"))?.trim().parse().ok());
    limits.chain(machine).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Failure: a size beyond the limit of a container is accepted, or that of another one counts.
    #[test]
    fn a_cgroup_has_the_memory_of_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(memory(root.path()), None);
        write(
            "proc/meminfo",
            "MemTotal:        8000 kB\nMemFree:         1000 kB\n",
        );
        assert_eq!(memory(root.path()), Some(8_192_000));
        write(
            "proc/self/cgroup",
            "1:name=systemd:/other\n0::/system.slice/larder.service\n",
        );
        write(
            "sys/fs/cgroup/system.slice/larder.service/memory.max",
            "max\n",
        );
        write("sys/fs/cgroup/other/memory.max", "5\n");
        assert_eq!(memory(root.path()), Some(8_192_000));
        write("sys/fs/cgroup/system.slice/memory.max", "4000000\n");
        assert_eq!(memory(root.path()), Some(4_000_000));
        write(
            "sys/fs/cgroup/system.slice/larder.service/memory.max",
            "9000000\n",
        );
        assert_eq!(memory(root.path()), Some(4_000_000));
        // In the namespace of a container.
        write("proc/self/cgroup", "0::/\n");
        write("sys/fs/cgroup/memory.max", "3000000\n");
        assert_eq!(memory(root.path()), Some(3_000_000));
    }
}

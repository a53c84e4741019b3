//! The memory that the process may have.

use larder_units::ByteSize;
use std::path::Path;

/// Returns the memory that the process may have: that of the machine, or the least limit of its
/// cgroups. `None` if the system does not tell it.
pub fn memory() -> Option<ByteSize> {
    memory_of(Path::new("/")).map(ByteSize::from_bytes)
}

/// Returns the bytes of memory that the process may have: those of the machine (proc(5),
/// `MemTotal`), or the least limit of its cgroup and of those above it (cgroup v2, `memory.max`),
/// as far as Linux tells them. `root` is the root of the file system.
fn memory_of(root: &Path) -> Option<u64> {
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
        assert_eq!(memory_of(root.path()), None);
        write(
            "proc/meminfo",
            "MemTotal:        8000 kB\nMemFree:         1000 kB\n",
        );
        assert_eq!(memory_of(root.path()), Some(8_192_000));
        write(
            "proc/self/cgroup",
            "1:name=systemd:/other\n0::/system.slice/larder.service\n",
        );
        write(
            "sys/fs/cgroup/system.slice/larder.service/memory.max",
            "max\n",
        );
        write("sys/fs/cgroup/other/memory.max", "5\n");
        assert_eq!(memory_of(root.path()), Some(8_192_000));
        write("sys/fs/cgroup/system.slice/memory.max", "4000000\n");
        assert_eq!(memory_of(root.path()), Some(4_000_000));
        write(
            "sys/fs/cgroup/system.slice/larder.service/memory.max",
            "9000000\n",
        );
        assert_eq!(memory_of(root.path()), Some(4_000_000));
        // In the namespace of a container.
        write("proc/self/cgroup", "0::/\n");
        write("sys/fs/cgroup/memory.max", "3000000\n");
        assert_eq!(memory_of(root.path()), Some(3_000_000));
    }
}

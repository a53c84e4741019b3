//! Configurations of the programs: as Debian packages them, tuned, and Larder's nodes.
//!
//! *As packaged* takes in the file of the package itself, and changes what has to differ on a
//! testbed with several servers: where it listens and for whom, which directory it serves, whose
//! rights it has, where it logs, and who its parent is. *Tuned* adds what its documentation advises
//! for many connections and large files.

use std::net::Ipv4Addr;
use std::path::Path;

/// What Debian's package has.
pub(super) const PACKAGED: [(&str, &str); 2] =
    [("lighttpd", "/etc/lighttpd/lighttpd.conf"), ("squid", "/etc/squid/squid.conf")];

/// A server of the files in `root`, on port 80.
pub(super) fn lighttpd(root: &Path, tuned: bool) -> String {
    let [(_, packaged), _] = PACKAGED;
    let mut text = format!(
        "include {packaged:?}\nserver.document-root := {root:?}\nserver.errorlog := \"/dev/null\"\nserver.pid-file := {:?}\n\
         server.username := \"\"\nserver.groupname := \"\"\nserver.port := 80\n",
        root.join("lighttpd.pid")
    );
    if tuned {
        // The file itself stays in the kernel's page cache: what is spared is system calls and
        // refusals.
        text += "server.max-fds = 16384\nserver.max-connections = 8192\nserver.stat-cache-engine = \"inotify\"\n\
                 server.network-backend = \"sendfile\"\nserver.max-keep-alive-requests = 1000\n";
    }
    text
}

/// A cache on port 3128, which asks `parent` where there is one.
///
/// As packaged, no object of more than 512 kB is kept in memory, there is no cache on disk, and
/// each request fetches for itself: a file of that size is never cached.
pub(super) fn squid(directory: &Path, host: &str, parent: Option<Ipv4Addr>, tuned: bool) -> String {
    let [_, (_, packaged)] = PACKAGED;
    let mut text = format!(
        "http_access allow all\ninclude {packaged}\nvisible_hostname {host}\npid_filename {}\ncache_log /dev/null\naccess_log none\n\
         cache_store_log none\ncoredump_dir none\npinger_enable off\nshutdown_lifetime 0 seconds\n",
        directory.join(format!("{host}.pid")).display()
    );
    if tuned {
        text += "cache_mem 512 MB\nmaximum_object_size_in_memory 256 MB\nmaximum_object_size 256 MB\ncollapsed_forwarding on\n\
                 max_filedescriptors 16384\n";
    }
    if let Some(parent) = parent {
        text += &format!("cache_peer {parent} parent 3128 0 no-query default\nnever_direct allow all\n");
    }
    text
}

/// Where a Larder node sends what it does not have.
pub(super) struct Route {
    /// `tcp://…` or `udp://…`.
    pub(super) to: String,
    /// Over UDP: what the link loses is sent again by its two ends.
    pub(super) reliable: bool,
}

/// A Larder node that forwards on port 6363, with this under `[ndn]` and this `[http]`.
pub(super) fn node(socket: &str, up: Option<&Route>, ndn: &str, http: &str) -> String {
    let route = up.map(|Route { to, reliable }| {
        let reliable = if *reliable { "reliable = true\n" } else { "" };
        format!("[[ndn.route]]\nprefix = \"/\"\nto = {to:?}\n{reliable}")
    });
    let route = route.unwrap_or_default();
    format!(
        "[ndn]\nunix = {socket:?}\ntcp = \"0.0.0.0:6363\"\nudp = \"0.0.0.0:6363\"\nwebsocket = \"\"\ncontent_store = \"512MiB\"\n\
         {ndn}{route}[http]\n{http}\n[admin]\nlisten = \"\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: "as packaged" is something else than what the package has.
    #[test]
    fn a_tuned_program_is_called_packaged() {
        let here = Path::new("/here");
        let packaged = [lighttpd(here, false), squid(here, "top", None, false)];
        let tuned = [lighttpd(here, true), squid(here, "top", None, true)];
        for ((packaged, tuned), (_, file)) in packaged.iter().zip(&tuned).zip(PACKAGED) {
            assert!(packaged.contains(file) && tuned.starts_with(packaged.as_str()) && tuned.len() > packaged.len());
        }
        assert!(!packaged[1].contains("cache_mem") && !packaged[1].contains("cache_peer"));
        assert!(
            squid(here, "edge0", Some(Ipv4Addr::new(10, 77, 0, 2)), false).contains("cache_peer 10.77.0.2 parent 3128")
        );
    }

    /// Failure: a configuration that the node refuses is found out when fifty namespaces stand.
    #[test]
    fn a_node_does_not_read_its_configuration() {
        let far = "[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://127.0.0.1:80\"\nmemory = \"1GiB\"\nsecret = \"/here/secret\"\n";
        let route = Route { to: "udp://10.77.0.1:6363".into(), reliable: true };
        let text = node("/here/a.sock", Some(&route), far, "listen = \"\"");
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(table["ndn"]["route"][0]["to"].as_str(), Some("udp://10.77.0.1:6363"));
        assert_eq!(table["ndn"]["route"][0]["reliable"].as_bool(), Some(true));
        assert_eq!(table["ndn"]["gateway"]["memory"].as_str(), Some("1GiB"));
        assert_eq!(table["http"]["listen"].as_str(), Some(""));
    }
}

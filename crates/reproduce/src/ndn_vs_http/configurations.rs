//! Configurations of the programs: as Debian packages them, tuned, and Larder's nodes.
//!
//! *As packaged* includes the file of the package itself. It changes what has to differ on a
//! testbed with several servers: the listening address and its clients, the served directory, the
//! user, the log and the parent. *Tuned* adds settings that suit many connections and large files.

use super::cell::SquidSetup;
use std::net::Ipv4Addr;
use std::path::Path;

/// The configuration files of Debian's packages.
pub(super) const PACKAGED: [(&str, &str); 2] = [
    ("lighttpd", "/etc/lighttpd/lighttpd.conf"),
    ("squid", "/etc/squid/squid.conf"),
];

/// Returns the configuration of a server of the files in `root`, on port 80.
pub(super) fn lighttpd(root: &Path, tuned: bool) -> String {
    let [(_, packaged), _] = PACKAGED;
    let mut text = format!(
        "include {packaged:?}\nserver.document-root := {root:?}\nserver.errorlog := \"/dev/null\"\nserver.pid-file := {:?}\n\
         server.username := \"\"\nserver.groupname := \"\"\nserver.port := 80\n",
        root.join("lighttpd.pid")
    );
    if tuned {
        // The file itself stays in the kernel's page cache. The settings save system calls and
        // prevent refusals.
        text += "server.max-fds = 16384\nserver.max-connections = 8192\nserver.stat-cache-engine = \"inotify\"\n\
                 server.network-backend = \"sendfile\"\nserver.max-keep-alive-requests = 1000\n";
    }
    text
}

/// Returns the configuration of a cache on port 3128, with the parent `parent` if there is one.
///
/// As packaged, Squid keeps no object of more than 512 kB in memory, has no cache on disk, and does
/// not collapse requests. It never caches a file of the experiments' size.
pub(super) fn squid(
    directory: &Path,
    host: &str,
    parent: Option<Ipv4Addr>,
    setup: SquidSetup,
) -> String {
    let [_, (_, packaged)] = PACKAGED;
    let mut text = format!(
        "http_access allow all\ninclude {packaged}\nvisible_hostname {host}\npid_filename {}\ncache_log /dev/null\naccess_log none\n\
         cache_store_log none\ncoredump_dir none\npinger_enable off\nshutdown_lifetime 0 seconds\n",
        directory.join(format!("{host}.pid")).display()
    );
    if setup != SquidSetup::Packaged {
        text += "cache_mem 512 MB\nmaximum_object_size_in_memory 256 MB\nmaximum_object_size 256 MB\ncollapsed_forwarding on\n\
                 client_db off\nmax_filedescriptors 16384\n";
    }
    if setup == SquidSetup::ReadsAhead {
        // More than any file of the experiments.
        text += "read_ahead_gap 256 MB\n";
    }
    if let Some(parent) = parent {
        text += &format!(
            "cache_peer {parent} parent 3128 0 no-query default\nnever_direct allow all\n"
        );
    }
    text
}

/// The upstream of a Larder node.
pub(super) struct Route {
    /// A URI: `tcp://…` or `udp://…`.
    pub(super) to: String,
    /// Over UDP: the two ends of the link retransmit what it loses.
    pub(super) reliable: bool,
}

/// Returns the configuration of a Larder node that forwards on port 6363, with this text under
/// `[ndn]` and this `[http]`.
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

    /// Failure: "as packaged" differs from the package.
    #[test]
    fn a_tuned_program_is_called_packaged() {
        let here = Path::new("/here");
        let packaged = [
            lighttpd(here, false),
            squid(here, "top", None, SquidSetup::Packaged),
        ];
        let tuned = [
            lighttpd(here, true),
            squid(here, "top", None, SquidSetup::Tuned),
        ];
        for ((packaged, tuned), (_, file)) in packaged.iter().zip(&tuned).zip(PACKAGED) {
            assert!(
                packaged.contains(file)
                    && tuned.starts_with(packaged.as_str())
                    && tuned.len() > packaged.len()
            );
        }
        let ahead = squid(here, "top", None, SquidSetup::ReadsAhead);
        assert_eq!(ahead, format!("{}read_ahead_gap 256 MB\n", tuned[1]));
        assert!(!packaged[1].contains("cache_mem") && !packaged[1].contains("cache_peer"));
        assert!(
            squid(
                here,
                "edge0",
                Some(Ipv4Addr::new(10, 77, 0, 2)),
                SquidSetup::Packaged
            )
            .contains("cache_peer 10.77.0.2 parent 3128")
        );
    }

    /// Failure: a configuration that the node refuses is noticed only after fifty namespaces are
    /// up.
    #[test]
    fn a_node_does_not_read_its_configuration() {
        let far = "[ndn.gateway]\nprefix = \"/far\"\norigin = \"http://127.0.0.1:80\"\nmemory = \"1GiB\"\nsecret = \"/here/secret\"\n";
        let route = Route {
            to: "udp://10.77.0.1:6363".into(),
            reliable: true,
        };
        let text = node("/here/a.sock", Some(&route), far, "listen = \"\"");
        let table: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(
            table["ndn"]["route"][0]["to"].as_str(),
            Some("udp://10.77.0.1:6363")
        );
        assert_eq!(table["ndn"]["route"][0]["reliable"].as_bool(), Some(true));
        assert_eq!(table["ndn"]["gateway"]["memory"].as_str(), Some("1GiB"));
        assert_eq!(table["http"]["listen"].as_str(), Some(""));
    }
}

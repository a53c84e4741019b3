//! The texts of the configurations.

use super::Identity;
use crate::run::sites::{any_address, state_folder};
use larder_units::ByteSize;
use serde_json::json;
use std::path::Path;

/// The share of the memory that a cache gets: the rest is for connections, and for the machine.
const MEMORY_SHARE: u64 = 4;

/// Returns the configuration of an HTTP cache with HTTPS.
pub(super) fn edge(origin: &str, identity: &Identity) -> String {
    let [plain, secure] = [80, 443].map(any_address);
    let (origin, cache, admin) = (json!(origin), cache(), admin(true));
    let identity = match identity {
        Identity::Files { certificate, key } => format!(
            "# PEM files: the server's certificate first, then those that lead to a root. When they change, the\n\
             # node reads them again by itself.\n\
             certificate = {}\nkey = {}\n",
            quoted(certificate),
            quoted(key)
        ),
        Identity::Acme { hosts } => format!(
            "\n\
             # Larder orders and renews a certificate for each host (ACME). The authority has to reach this node\n\
             # at port 80 or 443 of each. By naming hosts here, you agree to its terms of service.\n\
             [http.tls.acme]\nhosts = [{}]\nfolder = {}\n#email = \"admin@example.com\"\n",
            hosts
                .iter()
                .map(|host| json!(host).to_string())
                .collect::<Vec<_>>()
                .join(", "),
            quoted(&state_folder().join("acme"))
        ),
    };
    format!(
        "# An edge: an HTTP cache with HTTPS in front of an origin.\n\
         {HEAD}\n\
         [http]\n\
         # Requests without HTTPS are redirected.\n\
         listen = {plain}\n\
         redirect_to_https = true\n\
         # The server whose responses are cached, or the folder of the files that are served.\n\
         origin = {origin}\n\
         # Memory for responses; responses say how long they are fresh, and [[http.rules]] change it.\n\
         cache = \"{cache}\"\n\
         \n\
         [http.tls]\n\
         listen = {secure}\n\
         {identity}\n\
         # Text is compressed, by the best coding that its client takes.\n\
         [http.compression]\n\
         codings = [\"br\", \"zstd\", \"gzip\"]\n\
         \n\
         # A second tier on disk, which outlives a restart.\n\
         #[http.disk]\n\
         #path = \"/var/cache/larder/http\"\n\
         #capacity = \"50GiB\"\n\
         \n\
         # A line for each request; `larder advise` reads it.\n\
         #[http.access_log]\n\
         #path = \"/var/log/larder/access.log\"\n\
         \n\
         [ndn]\n\
         enabled = false\n\
         \n\
         {admin}"
    )
}

/// Returns the configuration of an NDN forwarder.
pub(super) fn router(uplinks: &[String], prefix: &str) -> String {
    let (address, cache, admin) = (any_address(6363), cache(), admin(false));
    let mut routes = String::from(
        "# Routes to other forwarders. A routing daemon or `larder ctl route add` makes others.\n",
    );
    for uplink in uplinks {
        let (prefix, uplink) = (json!(prefix), json!(uplink));
        routes += &format!("[[ndn.route]]\nprefix = {prefix}\nto = {uplink}\n\n");
    }
    if uplinks.is_empty() {
        routes += "#[[ndn.route]]\n#prefix = \"/\"\n#to = \"udp://192.0.2.1\"\n\n";
    }
    format!(
        "# A router: a forwarder of Named Data Networking (NDN).\n\
         {HEAD}\n\
         [ndn]\n\
         # Other machines reach these; applications on this one use the socket /run/nfd/nfd.sock, or that\n\
         # in the runtime directory of the user.\n\
         udp = {address}\n\
         tcp = {address}\n\
         # Browsers: pages of other sites need their origins in websocket_origins.\n\
         websocket = \"\"\n\
         # Memory for Data.\n\
         content_store = \"{cache}\"\n\
         # Applications on other machines may register no prefixes: they are not authenticated.\n\
         localhop_registration = false\n\
         # Threads that forward; 0: one per core.\n\
         shards = 1\n\
         \n\
         {routes}\
         [http]\n\
         enabled = false\n\
         \n\
         {admin}"
    )
}

/// Returns the configuration of a node to try things out with.
pub(super) fn laboratory() -> String {
    let admin = admin(false);
    format!(
        "# A laboratory: an HTTP cache and a forwarder of Named Data Networking (NDN) that only this machine\n\
         # reaches.\n\
         {HEAD}\n\
         [http]\n\
         # Try: curl -sv -o /dev/null http://127.0.0.1:8080/10KiB/hello\n\
         # Load: larder load http://127.0.0.1:8080/1KiB/a --duration 5s\n\
         listen = \"127.0.0.1:8080\"\n\
         # Objects of the size that the path names.\n\
         origin = \"generated\"\n\
         cache = \"64MiB\"\n\
         # `larder policies` lists the others.\n\
         policy = \"s3fifo\"\n\
         \n\
         [ndn]\n\
         # Try: larder put /lab/file FILE, and larder get /lab/file\n\
         unix = \"default\"\n\
         tcp = \"127.0.0.1:6363\"\n\
         udp = \"127.0.0.1:6363\"\n\
         websocket = \"127.0.0.1:9696\"\n\
         content_store = \"64MiB\"\n\
         policy = \"s3fifo\"\n\
         \n\
         {admin}"
    )
}

/// What stands above each configuration.
const HEAD: &str = "# All keys, with their defaults and meanings: larder run --print-config\n\
    # Check a change: larder run FILE --check. Apply it: larder ctl reload --config FILE\n\
    # (that needs [admin] token; SIGHUP does the same without one)\n";

/// Returns the table of the admin server, and what follows it.
///
/// An edge gets a token, because it is purged. A router and a laboratory have none: the console of
/// this machine needs none then.
fn admin(has_token: bool) -> String {
    let token = if has_token {
        let words: [u64; 2] = larder_host::entropy::words();
        format!("token = \"{:016x}{:016x}\"", words[0], words[1])
    } else {
        "#token = \"\"                         # openssl rand -hex 16 makes one".to_owned()
    };
    format!(
        "[admin]\n\
         # The console, in a browser; also /metrics and /status.\n\
         listen = \"127.0.0.1:8081\"\n\
         # Purges, reloads and upgrades over this address need it, and so does the console, if there is one.\n\
         # `larder ctl --config` takes it from this file.\n\
         {token}\n\
         \n\
         # The user that the node becomes after root has bound its ports.\n\
         #[process]\n\
         #user = \"larder\"\n"
    )
}

/// Returns a string of TOML.
fn quoted(path: &Path) -> String {
    json!(path.to_string_lossy()).to_string()
}

/// Returns the largest power of two within the share of the memory.
fn cache() -> ByteSize {
    let memory = larder_host::memory().map_or(1 << 30, ByteSize::bytes);
    let share = (memory / MEMORY_SHARE).max(64 << 20);
    ByteSize::from_bytes(1 << share.ilog2())
}

//! The rule for files that only implement: a file defines a type of its own, or it holds no methods
//! of another file's type, or it is listed here with the reason.

use super::Source;
use std::collections::BTreeSet;
use syn::{Item, Type};

/// Files that implement a type of another file, with the reasons.
pub(crate) const LISTED: [&str; 34] = [
    // The forms of an advice: a page, sentences, a configuration, a terminal's table.
    "crates/advise/src/configuration.rs",
    "crates/advise/src/page.rs",
    "crates/advise/src/sentences.rs",
    "crates/advise/src/terminal.rs",
    // Two tasks on the log's regions that share all its state.
    "crates/disk/src/log/jobs.rs",
    "crates/disk/src/log/reclaim.rs",
    // Events of the egress by kind.
    "crates/gateway/src/egress/egress_core/answers.rs",
    "crates/gateway/src/egress/egress_core/segments.rs",
    // The events that a cache handles, a file for each.
    "crates/http/src/cache/failure.rs",
    "crates/http/src/cache/invalidation.rs",
    "crates/http/src/cache/request.rs",
    "crates/http/src/cache/response.rs",
    "crates/http/src/cache/tier.rs",
    "crates/http/src/cache/tier_lookup.rs",
    // The tasks of a TCP sender that share its state.
    "crates/netsim/src/tcp/sender/alarms.rs",
    "crates/netsim/src/tcp/sender/losses.rs",
    "crates/netsim/src/tcp/sender/sending.rs",
    "crates/netsim/src/tcp/sender/window.rs",
    // What involves several parts of the event loop.
    "crates/node/src/ndn/event_loop/accept.rs",
    "crates/node/src/ndn/event_loop/connect.rs",
    "crates/node/src/ndn/event_loop/faces.rs",
    "crates/node/src/ndn/event_loop/management.rs",
    "crates/node/src/ndn/event_loop/neighbours.rs",
    "crates/node/src/ndn/event_loop/packets.rs",
    "crates/node/src/ndn/event_loop/reliable.rs",
    "crates/node/src/ndn/event_loop/reload.rs",
    "crates/node/src/ndn/event_loop/report.rs",
    "crates/node/src/ndn/event_loop/room.rs",
    "crates/node/src/ndn/event_loop/shared_memory.rs",
    "crates/node/src/ndn/event_loop/sharing.rs",
    "crates/node/src/ndn/event_loop/udp_peers.rs",
    // The figures of the NDN side, for the admin server.
    "crates/node/src/ndn/status.rs",
    // The steps of an upgrade.
    "crates/node/src/node/upgrade.rs",
    // What the shards of a cache do together for one URL.
    "crates/proxy/src/cache/shards/variants.rs",
];

/// Returns the names of the types that a file's items define, and of those whose own methods it
/// implements. Implementations of traits do not count: a file may hold a trait's and its types'.
fn types_of(items: &[Item]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut defined, mut implemented) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        match item {
            Item::Struct(item) => _ = defined.insert(item.ident.to_string()),
            Item::Enum(item) => _ = defined.insert(item.ident.to_string()),
            Item::Union(item) => _ = defined.insert(item.ident.to_string()),
            Item::Trait(item) => _ = defined.insert(item.ident.to_string()),
            Item::Type(item) => _ = defined.insert(item.ident.to_string()),
            Item::Impl(item) if item.trait_.is_none() => {
                if let Type::Path(path) = &*item.self_ty
                    && let Some(last) = path.path.segments.last()
                {
                    implemented.insert(last.ident.to_string());
                }
            }
            _ => {}
        }
    }
    (defined, implemented)
}

/// Returns true if the file implements methods of another file's type, and defines no type itself.
fn is_orphan(source: &Source) -> bool {
    let file =
        syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let (defined, implemented) = types_of(&file.items);
    defined.is_empty() && !implemented.is_empty()
}

/// Returns the files that implement a type of another file and are not listed, and those that are
/// listed without need.
pub(crate) fn orphans(sources: &[Source], listed: &[&str]) -> Vec<String> {
    let found: BTreeSet<&str> = sources
        .iter()
        .filter(|source| source.path.starts_with("crates/") && source.path.contains("/src/"))
        .filter(|source| is_orphan(source))
        .map(|source| source.path.as_str())
        .collect();
    let mut violations = Vec::new();
    for path in &found {
        if !listed.contains(path) {
            violations.push(format!("{path}: it implements a type of another file"));
        }
    }
    for path in listed {
        if !found.contains(path) {
            violations.push(format!("{path}: it need not be listed"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_orphan_is_found() {
        let of = |text: &str| {
            let path = "crates/a/src/b.rs".to_owned();
            orphans(
                &[Source {
                    path,
                    text: text.to_owned(),
                }],
                &[],
            )
            .len()
        };
        assert_eq!(of("impl Other { fn go(&self) {} }"), 1);
        assert_eq!(of("impl a::Other<'_> { fn go(&self) {} }"), 1);
        assert_eq!(
            of("struct Own; impl Own { fn go(&self) {} } impl Other { fn go(&self) {} }"),
            0
        );
        assert_eq!(of("impl Display for Other {}"), 0);
        assert_eq!(of("fn go() {}"), 0);
        assert_eq!(orphans(&[], &["crates/a/src/b.rs"]).len(), 1);
    }
}

//! The rules for imports: no two modules of a crate import each other, directly or through others.
//! In a crate with listed layers, imports only point downward.
//!
//! A module is a file. It imports another one if it names one of its items outside of its tests, by
//! `use` or by a path that begins with `crate`, `super` or `self`. A re-export (`pub use`) is not
//! an import, because a facade names everything below it. A name that a facade re-exports counts as
//! an import of the file that defines it.

use super::Source;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// Layers of a crate, the lowest first. A module's layer is the first one that lists its folder or
/// file.
const LAYERS: [(&str, &[&[&str]]); 6] = [
    (
        "admin",
        &[
            &["limits", "histogram", "token", "admin_body"],
            &["metrics", "admin_reply"],
            &["console"],
            &["source", "purging", "commands"],
            &["pages"],
        ],
    ),
    (
        "forwarder",
        &[
            &["limits", "drop_reason", "local_names"],
            &[
                "config",
                "face",
                "tables",
                "outbox",
                "stats",
                "strategy",
                "shard",
                "tier",
                "verification",
                "reassembly",
                "control",
            ],
            &["data_plane"],
            &["pipeline"],
            &["control_plane"],
            &["management"],
            &["receive"],
            &["forwarder"],
        ],
    ),
    (
        "http",
        &[
            &["limits", "now", "codec"],
            &["rfc"],
            &["config"],
            &["body"],
            &["store"],
            &["outbox"],
            &["collapse"],
            &["cache"],
        ],
    ),
    (
        "netsim",
        &[
            &["limits", "error", "events", "frame", "node"],
            &["link", "app"],
            &["centrality", "routes"],
            &["apps", "tcp"],
            &["simulation"],
            &["topology"],
            &["scenario"],
        ],
    ),
    (
        "node",
        &[
            &["limits", "inherited", "process", "supervisor"],
            &["handover"],
            &["config"],
            &["log"],
            &["ndn::error", "ndn::address", "ndn::tokens", "ndn::bounds"],
            &["ndn::transport"],
            &["ndn::guard"],
            &["ndn::send"],
            &["ndn::faces"],
            &["ndn::control"],
            &["ndn::shards"],
            &["ndn::disk", "ndn::what_if", "ndn::polling"],
            &["ndn::event_loop"],
            &["ndn"],
            &["user_files"],
            &["privileges"],
            &["error"],
            &["preflight", "parts", "reload"],
            &["doctor"],
            &["node"],
        ],
    ),
    (
        "proxy",
        &[
            &["base"],
            &["message"],
            &["access_log", "rules"],
            &["origin"],
            &["config"],
            &["report"],
            &["cache"],
            &["coding"],
            &["exchange"],
            &["client"],
            &["accept"],
            &["admin"],
            &["http_side"],
        ],
    ),
];

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The names that a file defines and uses.
struct Module {
    /// Names that this file defines or imports, with the path from the crate's root to their
    /// origin.
    names: BTreeMap<String, Vec<String>>,
    /// The used paths, from the crate's root.
    used: Vec<Vec<String>>,
}

struct Paths<'a> {
    /// The module path of the file.
    module: &'a [String],
    names: BTreeMap<String, Vec<String>>,
    used: Vec<Vec<String>>,
}

impl Paths<'_> {
    /// Returns a path from the crate's root, or `None` if it leads to another crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut module = self.module.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                module.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    module.pop();
                    rest = &rest[1..];
                }
            }
            _ => return None,
        }
        module.extend(rest.iter().cloned());
        Some(module)
    }

    fn use_tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, is_public: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.use_tree(&path.tree, before, is_public);
                before.pop();
            }
            syn::UseTree::Name(name) => {
                self.import(before, &name.ident.to_string(), None, is_public)
            }
            syn::UseTree::Rename(name) => {
                self.import(
                    before,
                    &name.ident.to_string(),
                    Some(name.rename.to_string()),
                    is_public,
                );
            }
            syn::UseTree::Glob(_) => self.import(before, "*", None, is_public),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, before, is_public);
                }
            }
        }
    }

    fn import(&mut self, before: &[String], name: &str, alias: Option<String>, is_public: bool) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        let Some(last) = path.last().cloned() else {
            return;
        };
        // Since the 2018 edition a path may also begin with a child module.
        let target = self
            .absolute(&path)
            .unwrap_or_else(|| [self.module, &path].concat());
        if is_public {
            self.names.insert(alias.unwrap_or(last), target);
        } else {
            self.used.push(target);
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            self.use_tree(&item.tree, &mut Vec::new(), is_public);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<_> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if let Some(target) = self.absolute(&words).filter(|_| words.len() > 1) {
            self.used.push(target);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// Returns the module of a file below `src`: `a/b.rs` and `a/b/mod.rs` are `[a, b]`, `lib.rs` is
/// `[]`.
fn module_of(file: &str) -> Vec<String> {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    let mut words: Vec<_> = file.split('/').map(str::to_owned).collect();
    if matches!(words.last().map(String::as_str), Some("mod")) || matches!(file, "lib" | "main") {
        words.pop();
    }
    words
}

fn read(source: &Source, module: &[String]) -> Module {
    let file =
        syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let mut paths = Paths {
        module,
        names: BTreeMap::new(),
        used: Vec::new(),
    };
    paths.visit_file(&file);
    Module {
        names: paths.names,
        used: paths.used,
    }
}

/// Returns the file that a path leads to, through re-exports.
fn resolve(
    modules: &BTreeMap<Vec<String>, Module>,
    path: &[String],
    depth: usize,
) -> Option<Vec<String>> {
    let length = (0..=path.len())
        .rev()
        .find(|length| modules.contains_key(&path[..*length]))?;
    let module = &path[..length];
    let Some(name) = path.get(length).filter(|_| depth < 8) else {
        return Some(module.to_vec());
    };
    match modules[module].names.get(name) {
        Some(target) if target.as_slice() != path => {
            let target: Vec<_> = target.iter().chain(&path[length + 1..]).cloned().collect();
            resolve(modules, &target, depth + 1)
        }
        _ => Some(module.to_vec()),
    }
}

/// Returns the imports within each crate, by file.
fn edges(sources: &[Source]) -> BTreeMap<String, Edges> {
    let mut crates: BTreeMap<String, BTreeMap<Vec<String>, Module>> = BTreeMap::new();
    for source in sources {
        let Some((name, file)) = source
            .path
            .strip_prefix("crates/")
            .and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        // If a crate has a library and a binary, the binary is a user of the library.
        if file == "main.rs"
            && sources
                .iter()
                .any(|other| other.path == format!("crates/{name}/src/lib.rs"))
        {
            continue;
        }
        let module = module_of(file);
        let read = read(source, &module);
        crates
            .entry(name.to_owned())
            .or_default()
            .insert(module, read);
    }
    let shown = |module: &[String]| {
        if module.is_empty() {
            "(root)".to_owned()
        } else {
            module.join("::")
        }
    };
    let edges_of = |modules: &BTreeMap<Vec<String>, Module>| {
        let mut edges = Edges::new();
        for (from, module) in modules {
            let targets = module
                .used
                .iter()
                .filter_map(|path| resolve(modules, path, 0));
            let targets = targets
                .filter(|to| to != from)
                .map(|to| shown(&to))
                .collect();
            edges.insert(shown(from), targets);
        }
        edges
    };
    crates
        .iter()
        .map(|(name, modules)| (name.clone(), edges_of(modules)))
        .collect()
}

fn reachable(edges: &Edges, from: &str) -> BTreeSet<String> {
    let (mut seen, mut waiting) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = waiting.pop() {
        for next in edges.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                waiting.push(next.clone());
            }
        }
    }
    seen
}

/// Returns the cycles: crate and modules.
pub(crate) fn cycles(sources: &[Source]) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for (name, edges) in edges(sources) {
        let reach: BTreeMap<_, _> = edges
            .keys()
            .map(|module| (module.clone(), reachable(&edges, module)))
            .collect();
        let mut done = BTreeSet::new();
        for (module, reached) in &reach {
            if !reached.contains(module) || done.contains(module) {
                continue;
            }
            let cycle: Vec<_> = reached
                .iter()
                .filter(|other| reach[*other].contains(module))
                .cloned()
                .collect();
            found.push((name.clone(), cycle.clone()));
            done.extend(cycle);
        }
    }
    found
}

pub(crate) fn upward(sources: &[Source]) -> Vec<String> {
    upward_in(sources, &LAYERS)
}

fn upward_in(sources: &[Source], all_layers: &[(&str, &[&[&str]])]) -> Vec<String> {
    let all = edges(sources);
    let mut violations = Vec::new();
    for (name, layers) in all_layers {
        let layer = |module: &str| {
            let is_in =
                |folder: &&str| module == *folder || module.starts_with(&format!("{folder}::"));
            layers.iter().position(|layer| layer.iter().any(is_in))
        };
        for (from, targets) in all.get(*name).into_iter().flatten() {
            for to in targets.iter().filter(|to| layer(from) < layer(to)) {
                violations.push(format!(
                    "crates/{name}: {from} imports {to} of a higher layer"
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(file, text): &(&str, &str)| Source {
            path: format!("crates/planted/src/{file}"),
            text: (*text).to_owned(),
        };
        let found = cycles(&files.iter().map(source).collect::<Vec<_>>());
        found
            .into_iter()
            .map(|(_, modules)| modules.join(", "))
            .collect()
    }

    #[test]
    fn planted_cycles_are_found() {
        let root = ("lib.rs", "mod a; mod b; pub use a::A;");
        let cycle = [
            root,
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "fn f() { let _ = super::A; }"),
        ];
        assert_eq!(planted(&cycle), ["a, b"]);
        let parent = [
            ("a/mod.rs", "mod b; use b::B; fn f() {}"),
            ("a/b.rs", "use super::f; pub struct B;"),
        ];
        assert_eq!(planted(&parent), ["a, a::b"]);
        let none = [
            root,
            ("a.rs", "pub struct A;"),
            (
                "b.rs",
                "use crate::A; #[cfg(test)] mod tests { use super::*; }",
            ),
        ];
        assert_eq!(planted(&none), [""; 0]);
    }

    #[test]
    fn a_planted_upward_import_is_found() {
        let source = |file: &str, text: &str| Source {
            path: format!("crates/planted/src/{file}"),
            text: text.to_owned(),
        };
        let sources = [
            source("low.rs", "use crate::high::H;"),
            source("high.rs", "pub struct H;"),
        ];
        let layers: &[(&str, &[&[&str]])] = &[("planted", &[&["low"], &["high"]])];
        assert_eq!(
            upward_in(&sources, layers),
            ["crates/planted: low imports high of a higher layer"]
        );
        let layers: &[(&str, &[&[&str]])] = &[("planted", &[&["high"], &["low"]])];
        assert_eq!(upward_in(&sources, layers), [""; 0]);
    }
}

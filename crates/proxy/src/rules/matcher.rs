//! Finds the rules of a request by host, path, method and scheme. Each condition has an index from
//! its value to the set of rules that it satisfies, so the time hardly depends on the number of
//! rules: a lookup of the host, the patterns that share the first letter of the path, a comparison
//! for each suffix, and the intersection of the sets.

use super::bits::Bits;
use super::config::{Rule, Scheme};
use super::pattern::{Glob, matched_path};
use crate::host_pattern::{HostPattern, name_of};
use foldhash::{HashMap, HashMapExt};
use http::Method;

pub(super) struct Matcher {
    /// The rules for requests by HTTP, and by HTTPS.
    schemes: [Bits; 2],
    get: Bits,
    /// The rules for other methods that some rule names.
    methods: Vec<(Method, Bits)>,
    any_method: Bits,
    /// `None` if no rule names a host.
    hosts: Option<Hosts>,
    /// `None` if no rule has a path.
    paths: Option<Paths>,
}

struct Hosts {
    /// The rules of each host that some rule names, those of wider patterns and those without a
    /// host among them, by the name without a port.
    names: HashMap<String, Bits>,
    /// Domains with a leading dot, such as `.example.com`, and the rules for what is below them.
    below: Vec<(String, Bits)>,
    /// Hosts with a port, and their rules.
    authorities: Vec<(HostPattern, Bits)>,
    /// The rules without a host.
    any: Bits,
}

struct Paths {
    /// The rules for every path.
    any: Bits,
    /// The number of the bucket of a path, by its second character.
    buckets: Box<[u8; 256]>,
    patterns: Vec<Vec<(Kind, Bits)>>,
    suffixes: Vec<Suffix>,
    others: Vec<(Glob, Bits)>,
}

enum Kind {
    Exact(String),
    Prefix(String),
    Glob(Glob),
}

/// A suffix of up to eight bytes, compared as one number.
struct Suffix {
    mask: u64,
    value: u64,
    bits: Bits,
}

impl Matcher {
    pub(super) fn new(rules: &[Rule]) -> Matcher {
        let having = |holds: &dyn Fn(&Rule) -> bool| -> Bits { places(rules, holds) };
        let schemes =
            [Scheme::Http, Scheme::Https].map(|scheme| having(&|rule| rule.scheme.is_none_or(|only| only == scheme)));
        let by_method = |method: &Method| having(&|rule| rule.method.is_empty() || rule.method.contains(method));
        let mut methods: Vec<(Method, Bits)> = Vec::new();
        for method in rules.iter().flat_map(|rule| &rule.method) {
            if methods.iter().all(|(known, _)| known != method) {
                methods.push((method.clone(), by_method(method)));
            }
        }
        Matcher {
            schemes,
            get: by_method(&Method::GET),
            methods,
            any_method: having(&|rule| rule.method.is_empty()),
            hosts: rules.iter().any(|rule| !rule.host.is_empty()).then(|| Hosts::new(rules)),
            paths: rules.iter().any(|rule| !rule.path.is_empty()).then(|| Paths::new(rules)),
        }
    }

    /// Returns the rules of a request. `host` is the authority as it was sent.
    pub(super) fn rules_of(&self, scheme: &str, host: &str, target: &str, method: &Method) -> Bits {
        let scheme_bits = self.schemes[usize::from(scheme == "https")];
        let mut bits = scheme_bits.and(match *method {
            Method::GET => self.get,
            _ => self.methods.iter().find(|(known, _)| known == method).map_or(self.any_method, |(_, bits)| *bits),
        });
        if let Some(hosts) = &self.hosts {
            bits = bits.and(hosts.rules_of(scheme, host));
        }
        if let Some(paths) = &self.paths
            && !bits.is_empty()
        {
            bits = bits.and(paths.rules_of(&matched_path(target)));
        }
        bits
    }
}

fn places(rules: &[Rule], holds: impl Fn(&Rule) -> bool) -> Bits {
    rules.iter().enumerate().filter(|(_, rule)| holds(rule)).map(|(place, _)| place).collect()
}

impl Hosts {
    fn new(rules: &[Rule]) -> Hosts {
        let any = places(rules, |rule| rule.host.is_empty());
        let mut hosts = Hosts { names: HashMap::new(), below: Vec::new(), authorities: Vec::new(), any };
        let mut names: Vec<&String> = Vec::new();
        for pattern in rules.iter().flat_map(|rule| &rule.host) {
            let bits = places(rules, |rule| rule.host.contains(pattern));
            match pattern {
                HostPattern::Any => hosts.any = hosts.any.or(bits),
                HostPattern::Name(name) => names.push(name),
                HostPattern::Below(domain) => hosts.below.push((domain.clone(), bits)),
                HostPattern::Authority(_) => hosts.authorities.push((pattern.clone(), bits)),
            }
        }
        for name in names {
            let own = places(rules, |rule| rule.host.iter().any(|pattern| pattern.fit(name).is_some()));
            hosts.names.insert(name.clone(), own.or(hosts.any));
        }
        hosts
    }

    fn rules_of(&self, scheme: &str, host: &str) -> Bits {
        let lower;
        let mut host = host;
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower = host.to_ascii_lowercase();
            host = &lower;
        }
        let name = name_of(host);
        let mut bits = self.names.get(name).copied().unwrap_or_else(|| {
            let is_below = |domain: &str| name.len() > domain.len() && name.ends_with(domain);
            let below = self.below.iter().filter(|(domain, _)| is_below(domain));
            below.fold(self.any, |all, (_, bits)| all.or(*bits))
        });
        if !self.authorities.is_empty() {
            let keyed = larder_http::keyed_authority(scheme, host);
            let matching = self.authorities.iter().filter(|(pattern, _)| pattern.fit(&keyed).is_some());
            bits = matching.fold(bits, |all, (_, bits)| all.or(*bits));
        }
        bits
    }
}

impl Paths {
    fn new(rules: &[Rule]) -> Paths {
        let mut paths = Paths {
            any: places(rules, |rule| rule.path.is_empty()),
            buckets: Box::new([0; 256]),
            // The first one stays empty, or has the path `/`.
            patterns: vec![Vec::new()],
            suffixes: Vec::new(),
            others: Vec::new(),
        };
        let mut known: Vec<&Glob> = Vec::new();
        for glob in rules.iter().flat_map(|rule| &rule.path) {
            if !known.contains(&glob) {
                known.push(glob);
                paths.add(glob, places(rules, |rule| rule.path.contains(glob)));
            }
        }
        paths
    }

    fn add(&mut self, glob: &Glob, bits: Bits) {
        let kind = match glob.parts() {
            [text] => Kind::Exact(text.clone()),
            [prefix, suffix] if prefix.is_empty() && suffix.is_empty() => {
                self.any = self.any.or(bits);
                return;
            }
            [prefix, suffix] if prefix.is_empty() && suffix.len() <= 8 => {
                let mask = u64::MAX << (64 - 8 * suffix.len());
                self.suffixes.push(Suffix { mask, value: last_eight(suffix.as_bytes()) & mask, bits });
                return;
            }
            [prefix, suffix] if prefix.len() > 1 && suffix.is_empty() => Kind::Prefix(prefix.clone()),
            [prefix, ..] if prefix.len() > 1 => Kind::Glob(glob.clone()),
            _ => {
                self.others.push((glob.clone(), bits));
                return;
            }
        };
        let second = glob.parts()[0].as_bytes().get(1).copied();
        let Some(second) = second else {
            self.patterns[0].push((kind, bits));
            return;
        };
        let bucket = &mut self.buckets[usize::from(second)];
        if *bucket == 0 {
            // There are at most 255 second characters: 0 occurs in no pattern's text.
            *bucket = u8::try_from(self.patterns.len()).unwrap_or(0);
            self.patterns.push(Vec::new());
        }
        self.patterns[usize::from(*bucket)].push((kind, bits));
    }

    fn rules_of(&self, path: &str) -> Bits {
        let bytes = path.as_bytes();
        let mut all = self.any;
        let bucket = bytes.get(1).map_or(0, |second| self.buckets[usize::from(*second)]);
        for (kind, bits) in &self.patterns[usize::from(bucket)] {
            let matches = match kind {
                Kind::Exact(text) => text == path,
                Kind::Prefix(text) => path.starts_with(text.as_str()),
                Kind::Glob(glob) => glob.matches(path),
            };
            if matches {
                all = all.or(*bits);
            }
        }
        if !self.suffixes.is_empty() {
            let end = last_eight(bytes);
            for suffix in &self.suffixes {
                if end & suffix.mask == suffix.value {
                    all = all.or(suffix.bits);
                }
            }
        }
        for (glob, bits) in &self.others {
            if glob.matches(path) {
                all = all.or(*bits);
            }
        }
        all
    }
}

/// Returns the last eight bytes as a number, the last one in the highest byte. No pattern has a
/// NUL, which stands before a shorter text.
fn last_eight(bytes: &[u8]) -> u64 {
    if let Some(last) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*last);
    }
    bytes.iter().fold(0, |number, byte| number >> 8 | u64::from(*byte) << 56)
}

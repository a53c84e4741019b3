//! Finds the rules of a request by host, path, method and scheme. Each condition has an index from
//! its value to the set of rules that it satisfies, so the time hardly depends on the number of
//! rules: a lookup of the host, the patterns that share the first letter of the path, a comparison
//! for each suffix, and the intersection of the sets. A connection keeps the rules of its host
//! ([`HostRules`]), so that its next request needs no lookup.

use super::bits::Bits;
use super::config::{Rule, Scheme};
use super::pattern::Glob;
use crate::message::host_pattern::{HostPattern, name_of};
use crate::message::target::Target;
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
    /// The patterns that begin with `/` and another character.
    prefixes: Vec<Vec<PathPattern>>,
    /// Those that begin with `*` and end with a text.
    suffixes: Vec<PathPattern>,
    others: Vec<(Glob, Bits)>,
}

/// A pattern, and up to eight bytes of its beginning or its end. They are compared as one number
/// before the whole pattern.
struct PathPattern {
    mask: u64,
    value: u64,
    glob: Glob,
    bits: Bits,
}

/// The rules of a scheme and a host.
#[derive(Clone)]
pub(crate) struct HostRules {
    is_https: bool,
    host: String,
    /// Those for GET.
    get: Bits,
    /// Those for some method.
    all: Bits,
}

impl HostRules {
    /// Returns true if they are those of this scheme and this host.
    pub(crate) fn are_of(&self, scheme: &str, host: &str) -> bool {
        self.host == host && self.is_https == (scheme == "https")
    }
}

impl Matcher {
    pub(super) fn new(rules: &[Rule]) -> Matcher {
        let having = |holds: &dyn Fn(&Rule) -> bool| -> Bits { places(rules, holds) };
        let schemes = [Scheme::Http, Scheme::Https]
            .map(|scheme| having(&|rule| rule.scheme.is_none_or(|only| only == scheme)));
        // HEAD asks for the head of what GET asks for (RFC 9110 §9.3.2).
        let is_named = |rule: &Rule, method: &Method| {
            rule.method.contains(method)
                || *method == Method::HEAD && rule.method.contains(&Method::GET)
        };
        let by_method =
            |method: &Method| having(&|rule| rule.method.is_empty() || is_named(rule, method));
        let mut methods: Vec<(Method, Bits)> = Vec::new();
        for method in rules
            .iter()
            .flat_map(|rule| &rule.method)
            .chain([&Method::HEAD])
        {
            if methods.iter().all(|(known, _)| known != method) {
                methods.push((method.clone(), by_method(method)));
            }
        }
        Matcher {
            schemes,
            get: by_method(&Method::GET),
            methods,
            any_method: having(&|rule| rule.method.is_empty()),
            hosts: rules
                .iter()
                .any(|rule| !rule.host.is_empty())
                .then(|| Hosts::new(rules)),
            paths: rules
                .iter()
                .any(|rule| !rule.path.is_empty())
                .then(|| Paths::new(rules)),
        }
    }

    /// Returns the rules of a scheme and a host, which is the authority as it was sent.
    pub(super) fn host_rules(&self, scheme: &str, host: &str) -> HostRules {
        let is_https = scheme == "https";
        let of_scheme = self.schemes[usize::from(is_https)];
        let all = self.hosts.as_ref().map_or(of_scheme, |hosts| {
            of_scheme.and(hosts.rules_of(scheme, host))
        });
        HostRules {
            is_https,
            host: host.to_owned(),
            get: all.and(self.get),
            all,
        }
    }

    /// Returns those of the rules of a host that are for this target and this method.
    pub(super) fn rules_of(&self, host: &HostRules, target: Target<'_>, method: &Method) -> Bits {
        let of_method = match *method {
            Method::GET => host.get,
            _ => {
                let of_method = self.methods.iter().find(|(known, _)| known == method);
                host.all
                    .and(of_method.map_or(self.any_method, |(_, bits)| *bits))
            }
        };
        match &self.paths {
            Some(paths) if !of_method.is_empty() => {
                paths.rules_of(of_method, &target.matched_path())
            }
            _ => of_method,
        }
    }
}

fn places(rules: &[Rule], holds: impl Fn(&Rule) -> bool) -> Bits {
    rules
        .iter()
        .enumerate()
        .filter(|(_, rule)| holds(rule))
        .map(|(place, _)| place)
        .collect()
}

impl Hosts {
    fn new(rules: &[Rule]) -> Hosts {
        let any = places(rules, |rule| rule.host.is_empty());
        let mut hosts = Hosts {
            names: HashMap::new(),
            below: Vec::new(),
            authorities: Vec::new(),
            any,
        };
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
            let own = places(rules, |rule| {
                rule.host.iter().any(|pattern| pattern.fit(name).is_some())
            });
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
            let matching = self
                .authorities
                .iter()
                .filter(|(pattern, _)| pattern.fit(&keyed).is_some());
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
            // The first one stays empty.
            prefixes: vec![Vec::new()],
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
        let (first, last) = match glob.parts() {
            [text] => (&text[..], &b""[..]),
            [first, .., last] => (&first[..], &last[..]),
            [] => return,
        };
        if first.len() > 1 {
            let (mask, value) = (
                u64::MAX >> (64 - 8 * first.len().min(8)),
                first_eight(first),
            );
            let bucket = &mut self.buckets[usize::from(first[1])];
            if *bucket == 0 {
                // There are at most 255 second characters: 0 occurs in no pattern's text.
                *bucket = u8::try_from(self.prefixes.len()).unwrap_or(0);
                self.prefixes.push(Vec::new());
            }
            self.prefixes[usize::from(*bucket)].push(PathPattern {
                mask,
                value,
                glob: glob.clone(),
                bits,
            });
        } else if !last.is_empty() {
            let (mask, value) = (u64::MAX << (64 - 8 * last.len().min(8)), last_eight(last));
            self.suffixes.push(PathPattern {
                mask,
                value,
                glob: glob.clone(),
                bits,
            });
        } else if glob.parts() == [b"", b""] {
            self.any = self.any.or(bits);
        } else {
            self.others.push((glob.clone(), bits));
        }
    }

    /// Returns those of some rules that are for this path.
    fn rules_of(&self, some: Bits, path: &[u8]) -> Bits {
        let mut found = some.and(self.any);
        let mut look_at = |patterns: &[PathPattern], part: u64| {
            for pattern in patterns
                .iter()
                .filter(|pattern| part & pattern.mask == pattern.value)
            {
                let bits = some.and(pattern.bits);
                if !bits.is_empty() && pattern.glob.matches(path) {
                    found = found.or(bits);
                }
            }
        };
        let bucket = path
            .get(1)
            .map_or(0, |second| self.buckets[usize::from(*second)]);
        look_at(&self.prefixes[usize::from(bucket)], first_eight(path));
        look_at(&self.suffixes, last_eight(path));
        for (glob, bits) in &self.others {
            if glob.matches(path) {
                found = found.or(some.and(*bits));
            }
        }
        found
    }
}

/// Returns the first eight bytes as a number, the first one in the lowest byte. Zeros stand for
/// the bytes that a shorter text does not have.
fn first_eight(bytes: &[u8]) -> u64 {
    let number = |chunk: &[u8; 4]| u64::from(u32::from_le_bytes(*chunk));
    match (
        bytes.first_chunk::<8>(),
        bytes.first_chunk(),
        bytes.last_chunk(),
    ) {
        (Some(first), ..) => u64::from_le_bytes(*first),
        // The two overlap, with the same bytes.
        (None, Some(first), Some(last)) => number(first) | number(last) << (8 * (bytes.len() - 4)),
        _ => bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// Returns the last eight bytes as a number, the last one in the highest byte. Zeros stand for the
/// bytes that a shorter text does not have.
fn last_eight(bytes: &[u8]) -> u64 {
    match bytes.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last),
        None if bytes.is_empty() => 0,
        None => first_eight(bytes) << (64 - 8 * bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Failure: a pattern of more or less than eight bytes is looked for in other bytes.
        #[test]
        fn eight_bytes_are_others(text in proptest::collection::vec(any::<u8>(), 0..12)) {
            let (mut first, mut last) = ([0; 8], [0; 8]);
            let most = text.len().min(8);
            first[..most].copy_from_slice(&text[..most]);
            last[8 - most..].copy_from_slice(&text[text.len() - most..]);
            prop_assert_eq!(first_eight(&text), u64::from_le_bytes(first));
            prop_assert_eq!(last_eight(&text), u64::from_le_bytes(last));
        }

        /// Failure: the index misses a path that a pattern of any length matches.
        #[test]
        fn a_long_pattern_is_missed(path in "/[ab/]{0,20}", cut in 0..21_usize, is_prefix: bool) {
            let cut = cut.min(path.len());
            let pattern = if is_prefix { format!("{}*", &path[..cut]) } else { format!("*{}", &path[cut..]) };
            let rules = vec![Rule { path: vec![Glob::of_path(&pattern).unwrap()], ..Rule::default() }];
            let matcher = Matcher::new(&rules);
            let host = matcher.host_rules("http", "a.test");
            let found = matcher.rules_of(&host, Target::from(path.as_str()), &Method::GET);
            let normal = Target::from(path.as_str()).matched_path().into_owned();
            prop_assert_eq!(!found.is_empty(), rules[0].path[0].matches(&normal), "{} {}", pattern, path);
        }
    }
}

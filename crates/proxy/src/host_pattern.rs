//! `host` of `[[http.origins]]`: the hosts that a group of servers serves.

/// The hosts that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Every host.
    Any,
    /// This host, at every port.
    Name(String),
    /// This host, at this port only.
    Authority(String),
    /// Every host below a domain, at every port; with the leading dot, `.example.com`.
    Below(String),
}

impl HostPattern {
    /// Reads a host as it is keyed (`larder_http::keyed_authority`), or `*.` and a domain. `None`
    /// for a `*` elsewhere, or with a port.
    pub fn parse(host: &str) -> Option<HostPattern> {
        let bare = without_port(host);
        match host.strip_prefix('*') {
            Some(domain) => {
                let is_domain = domain.len() > 1 && domain.starts_with('.') && !domain[1..].starts_with('.');
                let is_sound = is_domain && !domain.contains(['*', ':', '[']);
                is_sound.then(|| HostPattern::Below(domain.to_owned()))
            }
            None if host.contains('*') || bare.is_empty() => None,
            None if bare == host => Some(HostPattern::Name(host.to_owned())),
            None => Some(HostPattern::Authority(host.to_owned())),
        }
    }

    /// Returns how closely it matches a host, as it is keyed: a larger number is closer. `None` if
    /// it does not match.
    pub fn fit(&self, host: &str) -> Option<usize> {
        match self {
            HostPattern::Any => Some(0),
            HostPattern::Name(name) => (name_of(host) == name).then_some(usize::MAX - 1),
            HostPattern::Authority(authority) => {
                let port = &host[without_port(host).len()..];
                let is_it = authority.strip_suffix(port).is_some_and(|name| name == name_of(host));
                is_it.then_some(usize::MAX)
            }
            HostPattern::Below(domain) => {
                let name = name_of(host);
                (name.len() > domain.len() && name.ends_with(domain)).then_some(domain.len())
            }
        }
    }
}

/// Returns a host without its port, and without the dot at the end of a name that is fully
/// qualified (RFC 3986 §3.2.2): the same host must not evade a pattern by it.
pub(crate) fn name_of(host: &str) -> &str {
    let name = without_port(host);
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns a host without its port. An IPv6 address keeps its brackets.
fn without_port(host: &str) -> &str {
    // A hit with rules calls this: a loop over few bytes is faster than `str::find` and `memchr`.
    let mut bytes = host.bytes();
    let end = match host.starts_with('[') {
        true => bytes.rposition(|byte| byte == b']').map(|end| end + 1),
        false => bytes.position(|byte| byte == b':'),
    };
    &host[..end.unwrap_or(host.len())]
}

/// Returns true for a name or an IPv4 address, with or without a port. Nearly all hosts are of this
/// form, so the full grammar is seldom needed.
pub(super) fn is_plain_host(host: &str) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'.' || *byte == b'-';
    let bytes = host.as_bytes();
    let end = bytes.iter().position(|byte| !is_name(byte)).unwrap_or(bytes.len());
    let is_end = match &bytes[end..] {
        [] => true,
        [b':', port @ ..] => (1..=5).contains(&port.len()) && port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    end > 0 && is_end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_another_form_is_plain() {
        for host in ["a", "a.example", "a-b.example.:8080", "192.0.2.1", "A:1", "a:00080"] {
            assert!(is_plain_host(host), "{host}");
        }
        for host in ["", ":80", "a:", "a:123456", "a:8x", "a:80:80", "[::1]", "a b", "a_b", "a@b", "é"] {
            assert!(!is_plain_host(host), "{host}");
        }
    }

    #[test]
    fn a_port_is_ignored_unless_the_pattern_has_one() {
        for (pattern, fits, fits_not) in [
            (
                "a.example",
                &["a.example", "a.example:8080", "a.example.", "a.example.:80"][..],
                &["b.a.example", "a.example.org", "aa.example"][..],
            ),
            (
                "a.example:8080",
                &["a.example:8080", "a.example.:8080"],
                &["a.example", "a.example:80801", "a.example8080"],
            ),
            ("[::1]", &["[::1]", "[::1]:8080"], &["[::2]", "::1"]),
            ("[::1]:8080", &["[::1]:8080"], &["[::1]"]),
            (
                "*.example",
                &["a.example", "a.b.example:8080", "a.example."],
                &["example", ".example", "aexample", "a.example.org"],
            ),
        ] {
            let parsed = HostPattern::parse(pattern).unwrap();
            assert!(fits.iter().all(|host| parsed.fit(host).is_some()), "{pattern}");
            assert!(fits_not.iter().all(|host| parsed.fit(host).is_none()), "{pattern}");
        }
        for wrong in ["*", "*.", "*example", "a.*.example", "**.example", "*.example:80", "*..example", ":80", ""] {
            assert_eq!(HostPattern::parse(wrong), None, "{wrong}");
        }
    }
}

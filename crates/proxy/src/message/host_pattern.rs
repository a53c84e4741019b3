//! `host` of `[[http.origins]]`: the hosts that a group of servers serves.

use crate::base::limits;

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
                let is_domain =
                    domain.len() > 1 && domain.starts_with('.') && !domain[1..].starts_with('.');
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
                let is_it = authority
                    .strip_suffix(port)
                    .is_some_and(|name| name == name_of(host));
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
pub(crate) fn without_port(host: &str) -> &str {
    // A hit with rules calls this: a loop over few bytes is faster than `str::find` and `memchr`.
    let mut bytes = host.bytes();
    let end = if host.starts_with('[') {
        bytes.rposition(|byte| byte == b']').map(|end| end + 1)
    } else {
        bytes.position(|byte| byte == b':')
    };
    &host[..end.unwrap_or(host.len())]
}

/// True for the bytes of a name: letters, digits, dots and hyphens.
static IS_NAME_BYTE: [bool; 256] = {
    let mut is_name_byte = [false; 256];
    let mut byte: u8 = 0;
    while byte < u8::MAX {
        is_name_byte[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
        byte += 1;
    }
    is_name_byte
};

/// Returns true for a name or an IPv4 address, with or without a port, whose normal form needs only
/// small letters and no port of the scheme's own. Nearly all hosts are of this form.
pub(crate) fn is_plain_host(host: &str) -> bool {
    let bytes = host.as_bytes();
    let (mut end, mut previous) = (bytes.len(), b'.');
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'.' && previous == b'.' {
            return false;
        }
        if !IS_NAME_BYTE[usize::from(*byte)] {
            end = at;
            break;
        }
        previous = *byte;
    }
    let is_end = match &bytes[end..] {
        [] => true,
        // Ports from 60000 on need a closer look.
        [b':', port @ ..] => match port {
            [b'1'..=b'9', rest @ ..] if rest.len() <= 3 => rest.iter().all(u8::is_ascii_digit),
            [b'1'..=b'5', rest @ ..] if rest.len() == 4 => rest.iter().all(u8::is_ascii_digit),
            _ => false,
        },
        _ => false,
    };
    previous != b'.' && end <= limits::KNOWN_HOST_BYTES && is_end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_another_form_is_plain() {
        for host in [
            "a",
            "a.example",
            "a-b.example:8080",
            "192.0.2.1:59999",
            "A:1",
        ] {
            assert!(is_plain_host(host), "{host}");
        }
        for host in [
            "", ":80", "a:", "a:123456", "a:8x", "a:80:80", "[::1]", "a b", "a_b", "a@b", "é",
            "a.", "a..b", ".a", "a:080", "a:65536", "a.:80", ".",
        ] {
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
            assert!(
                fits.iter().all(|host| parsed.fit(host).is_some()),
                "{pattern}"
            );
            assert!(
                fits_not.iter().all(|host| parsed.fit(host).is_none()),
                "{pattern}"
            );
        }
        for wrong in [
            "*",
            "*.",
            "*example",
            "a.*.example",
            "**.example",
            "*.example:80",
            "*..example",
            ":80",
            "",
        ] {
            assert_eq!(HostPattern::parse(wrong), None, "{wrong}");
        }
    }
}

//! The normal form of an authority: the host that a client names, and its port.

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// The longest name (RFC 1035 §2.3.4).
const NAME_BYTES: usize = 253;

/// Returns the normal form of a host with or without a port: in lower case, without the dot at the
/// end of a name that is fully qualified (RFC 3986 §3.2.2), and without the scheme's own port. The
/// key, the rules and the origin get it.
///
/// # Errors
/// The reason of the refusal, if the text is no host.
pub fn normal_authority<'a>(scheme: &str, text: &'a str) -> Result<Cow<'a, str>, &'static str> {
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or("the host has no ] at its end")?;
        let address: Ipv6Addr = address
            .parse()
            .map_err(|_| "the host in brackets is no IPv6 address")?;
        (Cow::Owned(format!("[{address}]")), port)
    } else {
        let end = text.find(':').unwrap_or(text.len());
        (normal_name(&text[..end])?, &text[end..])
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        Some("") => None,
        Some(digits) if digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number: u16 = digits.parse().map_err(|_| "the port is above 65535")?;
            Some(number).filter(|number| *number != if scheme == "https" { 443 } else { 80 })
        }
        _ => return Err("the host is not a host with a port"),
    };
    let normal = match port {
        None => name,
        Some(port) => {
            // Nearly all hosts with a port are in their normal form.
            let is_normal = |digits: &str| digits == itoa::Buffer::new().format(port);
            let rest = text
                .strip_prefix(&*name)
                .and_then(|rest| rest.strip_prefix(':'));
            if rest.is_some_and(is_normal) {
                return Ok(Cow::Borrowed(text));
            }
            Cow::Owned(format!("{name}:{port}"))
        }
    };
    // Borrowed from the whole, if nothing was left out.
    Ok(if normal == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(normal.into_owned())
    })
}

fn normal_name(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(is_of_name) {
        return Err("the host is not a host");
    }
    if name.split('.').any(str::is_empty) {
        return Err("the host has two dots beside each other");
    }
    let has_capitals = name.bytes().any(|byte| byte.is_ascii_uppercase());
    Ok(if has_capitals {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_are_two_hosts() {
        for (text, normal) in [
            ("a.example", "a.example"),
            ("A.Example.:80", "a.example"),
            ("a:443", "a:443"),
            ("a:", "a"),
            ("a:08080", "a:8080"),
            ("a_b.c", "a_b.c"),
            ("[0:0::1]:80", "[::1]"),
            ("[::1]:8080", "[::1]:8080"),
            ("192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(
                normal_authority("http", text).as_deref(),
                Ok(normal),
                "{text}"
            );
            assert_eq!(
                normal_authority("http", normal).as_deref(),
                Ok(normal),
                "{text}"
            );
        }
        assert_eq!(normal_authority("https", "a:443").as_deref(), Ok("a"));
        for text in [
            "",
            ".",
            "..",
            "a..",
            "a..b",
            ".a",
            "a,b",
            "[a]",
            "[::1",
            "[::1]a",
            "[::1%25lo]",
            "a:b",
            "a:99999",
            "a:1:2",
            "::1",
            "a b",
            "é",
            "u@a",
            "a%2e",
            "a/",
            "a:-1",
            "a:+1",
            "a:000080",
        ] {
            assert!(normal_authority("http", text).is_err(), "{text}");
        }
    }
}

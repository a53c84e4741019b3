//! HTTP servers as origins.

/// The origin of the HTTP cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Objects generated in this process.
    Generated,
    /// An HTTP server.
    Http(http::Uri),
}

/// `http://HOST[:PORT]`, or with `https`.
pub(super) fn server(text: &str) -> Option<http::Uri> {
    let uri: Option<http::Uri> = text.parse().ok();
    uri.filter(|uri| {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let (_, after_host) = authority.rsplit_once(']').unwrap_or(("", authority));
        let port_is_right = !after_host.contains(':') || uri.port_u16().is_some();
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && !authority.contains('@')
            && port_is_right
            && uri.path() == "/"
            && uri.query().is_none()
    })
}

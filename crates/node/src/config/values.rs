//! Values of the file, and parsers for them.

use larder_units::from_text;
use serde::Deserializer;
use std::net::SocketAddr;

/// `""` turns a listener off.
pub(super) fn address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    from_text(deserializer, |text| {
        match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| {
            "expected an address and a port, such as \"127.0.0.1:6363\" or \"[::]:6363\", or \"\" for none".to_owned()
        }),
    }
    })
}

//! Blocks of IP addresses, such as `10.0.0.0/8`, or `all`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with a common prefix (CIDR, RFC 4632), or all. A single address is a block of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(Option<Block>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// The first address. Bits after the prefix are 0.
    address: IpAddr,
    /// The number of bits of the prefix.
    prefix: u8,
}

impl Network {
    /// Returns true if the address is in the block. IPv4 addresses that are mapped to IPv6 are IPv4
    /// addresses. The unspecified address stands for a client without one, or whose address is not
    /// known: it is only in `all` and `::/0`.
    pub fn contains(&self, address: IpAddr) -> bool {
        if address.is_unspecified() {
            return self.0.is_none_or(|block| block.prefix == 0);
        }
        self.0
            .is_none_or(|block| masked(address.to_canonical(), block.prefix) == Some(block.address))
    }
}

/// Returns the address with the bits after the prefix set to 0; `None` if it has fewer bits.
fn masked(address: IpAddr, prefix: u8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX
                .checked_shl(32_u32.checked_sub(prefix.into())?)
                .unwrap_or(0);
            Some(IpAddr::V4((u32::from(address) & mask).into()))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX
                .checked_shl(128_u32.checked_sub(prefix.into())?)
                .unwrap_or(0);
            Some(IpAddr::V6((u128::from(address) & mask).into()))
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let expected = || {
            "expected addresses such as \"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.1\" or \"all\""
                .to_owned()
        };
        if text == "all" {
            return Ok(Network(None));
        }
        let (address, prefix) = text
            .split_once('/')
            .map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address = address.parse::<IpAddr>().map_err(|_| expected())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix
            .map_or(Ok(bits), str::parse)
            .map_err(|_| expected())?;
        match masked(address, prefix) {
            Some(first) if first == address => Ok(Network(Some(Block { address, prefix }))),
            Some(first) => Err(format!(
                "{address} is not the first address of its block; write {first}/{prefix}"
            )),
            None => Err(expected()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("all"),
            Some(Block { address, prefix }) => write!(f, "{address}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_wrong_block() {
        let contains = |network: &str, address: &str| {
            network
                .parse::<Network>()
                .unwrap()
                .contains(address.parse().unwrap())
        };
        for (network, address) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1"),
            ("192.0.2.1", "192.0.2.1"),
            ("0.0.0.0/0", "192.0.2.1"),
            ("::/0", "2001:db8::1"),
            ("all", "192.0.2.1"),
            ("all", "::1"),
            ("2001:db8::/32", "2001:db8:1::1"),
        ] {
            assert!(contains(network, address), "{network} {address}");
        }
        for (network, address) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("192.0.2.1", "192.0.2.2"),
            ("0.0.0.0/0", "2001:db8::1"),
            ("::/0", "192.0.2.1"),
            ("2001:db8::/32", "2001:db9::1"),
        ] {
            assert!(!contains(network, address), "{network} {address}");
        }
        for text in [
            "",
            "a",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "::/129",
            "10.0.0.0/8/8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        for text in ["10.0.0.0/8", "2001:db8::/32", "all"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
    }
}

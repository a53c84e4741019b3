//! The number of things of one kind that each client has, such as connections, by its address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// What each client has. Clients that have nothing take no memory.
#[derive(Default)]
pub(crate) struct ClientShares(Mutex<HashMap<IpAddr, usize>>);

impl ClientShares {
    /// Adds one for a client, unless it has `most` already. A client without an address, on a Unix
    /// socket, has no limit. What a client gets without a limit (`usize::MAX`) is not counted, so
    /// it costs no lock, and does not count either if a reload sets a limit.
    pub(crate) fn take(self: &Arc<Self>, client: Option<IpAddr>, most: usize) -> Option<Share> {
        let client = client.filter(|_| most < usize::MAX).map(subscriber);
        if let Some(client) = client {
            let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let share = shares.entry(client).or_insert(0);
            if *share >= most {
                if *share == 0 {
                    shares.remove(&client);
                }
                return None;
            }
            *share += 1;
        }
        Some(Share {
            shares: Arc::clone(self),
            client,
        })
    }
}

/// Returns the address that a subscriber has for itself: of IPv6, the network of 64 bits, within
/// which each of its machines may choose addresses (RFC 4291 §2.5.4).
pub(crate) fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
        address @ IpAddr::V4(_) => address,
    }
}

/// One thing of a client, until it is dropped.
pub(crate) struct Share {
    shares: Arc<ClientShares>,
    client: Option<IpAddr>,
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(client) = self.client else { return };
        let mut shares = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get_mut(&client) {
            *share -= 1;
            if *share == 0 {
                shares.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a client gets more by another address of its own network, or an address that is
    /// written in another way; or what it had is never forgotten.
    #[test]
    fn a_subscriber_has_one_share() {
        let shares = Arc::new(ClientShares::default());
        let take = |client: &str, most| shares.take(Some(client.parse().unwrap()), most);
        for (one, same, other) in [
            ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
            ("2001:db8::1", "2001:db8::ffff:0:0:9", "2001:db8:0:1::1"),
        ] {
            let held = [take(one, 2), take(same, 2)];
            assert!(
                held.iter().all(Option::is_some)
                    && take(one, 2).is_none()
                    && take(other, 2).is_some()
            );
            drop(held);
            assert!(take(same, 1).is_some() && take(one, 0).is_none());
        }
        assert!(shares.take(None, 0).is_some());
        let _unlimited = take("192.0.2.1", usize::MAX);
        assert!(shares.0.lock().unwrap().is_empty());
    }
}

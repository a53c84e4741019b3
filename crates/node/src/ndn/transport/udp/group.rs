//! The UDP sockets of all threads: one address, one socket a thread (`SO_REUSEPORT`).
//!
//! The first socket is bound without the option, so an occupied port is an error, as it is with one
//! thread. Then it gets the option, and the others are bound with it. The option stays: the kernel
//! looks at it for each datagram. Another process of the same user may join the group, but the
//! program of [`super::steering`] never chooses its socket. It may also bind a more specific
//! address with this option, and then gets that address's datagrams; with one thread, that is
//! refused.
//!
//! An upgrade passes all sockets, in order. The new process binds more, or closes some, if it has
//! another number of threads. If the kernel refuses more, for example because the socket is
//! systemd's and belongs to another user, or root has bound it before `[process] user`, the node
//! serves those that it has.

use crate::ndn::address::with_ipv4_fallback;
use crate::ndn::transport::udp::datagram::{UdpListener, bind_udp};
use crate::ndn::transport::udp::steering::Steering;
use larder_host::bind_beside;
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;

/// Binds the sockets for so many threads. The address may overlap those of sockets that are about
/// to close.
pub(crate) fn bind(
    address: SocketAddr,
    threads: usize,
    closing: &[BorrowedFd<'_>],
) -> io::Result<Vec<UdpListener>> {
    let first = with_ipv4_fallback(address, |address| {
        bind_beside(closing, |shares_port| bind_udp(address, shares_port))
    });
    if closing.len() > 1 {
        // They are a group themselves, and stay one if the reload is refused.
        closing
            .iter()
            .try_for_each(|socket| SockRef::from(socket).set_reuse_port(true))?;
    }
    listen_on(vec![first?], threads)
}

/// Returns listeners for so many threads on these sockets of one address, and on more that are
/// bound beside them. At least one socket is given.
pub(crate) fn listen_on(
    mut sockets: Vec<UdpSocket>,
    threads: usize,
) -> io::Result<Vec<UdpListener>> {
    // In a larger group, the kernel would choose sockets that are read no longer.
    let was_group = sockets.len() > 1;
    sockets.truncate(threads);
    if let Err(error) = complete(&mut sockets, threads) {
        tracing::warn!(
            %error,
            sockets = sockets.len(),
            threads,
            "[ndn] udp: not every thread gets a socket; the others forward without one"
        );
    }
    let mut steering = Steering::new(sockets.len());
    if (was_group || sockets.len() > 1)
        && let Err(error) = steering.attach(&sockets[0])
    {
        tracing::warn!(%error, "[ndn] udp: the kernel cannot spread peers over threads; one reads all datagrams");
        sockets.truncate(1);
        steering = Steering::new(1);
    }
    sockets
        .into_iter()
        .map(|socket| UdpListener::new(socket, steering))
        .collect()
}

fn complete(sockets: &mut Vec<UdpSocket>, threads: usize) -> io::Result<()> {
    let Some(first) = sockets.first().filter(|_| sockets.len() < threads) else {
        return Ok(());
    };
    SockRef::from(first).set_reuse_port(true)?;
    let address = first.local_addr()?;
    while sockets.len() < threads {
        sockets.push(bind_udp(address, true)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn address_of(group: &mut [UdpListener]) -> SocketAddr {
        group[0].socket().local_addr().unwrap()
    }

    /// Failure: a second node on the same port starts, and gets a part of the datagrams.
    #[test]
    fn an_occupied_port_is_shared() {
        for threads in [1, 3] {
            let mut group = bind("127.0.0.1:0".parse().unwrap(), threads, &[]).unwrap();
            assert_eq!(group.len(), threads);
            let address = address_of(&mut group);
            assert!(
                group
                    .iter_mut()
                    .all(|one| one.socket().local_addr().unwrap() == address)
            );
            for others in [1, 2] {
                let refused = bind(address, others, &[])
                    .err()
                    .expect("the port is occupied");
                assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
            }
        }
    }

    /// Failure: a reload that overlaps the running address is refused, or breaks the group.
    #[test]
    fn a_wider_address_is_refused() {
        let mut old = bind("127.0.0.1:0".parse().unwrap(), 2, &[]).unwrap();
        let port = address_of(&mut old).port();
        let kept: Vec<_> = old
            .iter_mut()
            .map(|one| one.socket().as_fd().try_clone_to_owned().unwrap())
            .collect();
        let closing: Vec<_> = kept.iter().map(|socket| socket.as_fd()).collect();
        let wider = bind(SocketAddr::from(([0, 0, 0, 0], port)), 2, &closing).unwrap();
        assert_eq!(wider.len(), 2);
        assert!(
            closing
                .iter()
                .all(|socket| SockRef::from(socket).reuse_port().unwrap()),
            "still a group"
        );
        drop(wider);
        assert!(bind(address_of(&mut old), 1, &[]).is_err());
    }

    /// Failure: an upgrade with another number of threads loses the port, or binds it elsewhere.
    #[test]
    fn an_inherited_group_keeps_its_size() {
        for (before, after) in [(1, 3), (3, 1), (2, 2), (4, 3)] {
            let mut old = bind("127.0.0.1:0".parse().unwrap(), before, &[]).unwrap();
            let address = address_of(&mut old);
            let passed = old
                .iter_mut()
                .map(|one| one.socket().as_fd().try_clone_to_owned().unwrap());
            let passed: Vec<UdpSocket> = passed.map(UdpSocket::from).collect();
            let mut new = listen_on(passed, after).unwrap();
            drop(old);
            assert_eq!((new.len(), address_of(&mut new)), (after, address));
        }
    }
}

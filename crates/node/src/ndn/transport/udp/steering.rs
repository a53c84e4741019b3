//! Which of several UDP sockets with one address gets a peer's datagrams.
//!
//! The sockets are a group of `SO_REUSEPORT`, one for each thread. A classic BPF program selects
//! the socket of a datagram (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)). It hashes the sender's address
//! and port, and [`Steering::socket_of`] computes the same. So the thread of a peer is known before
//! its first datagram, a route's face is created there, and no face ever moves.
//!
//! Nothing but speed depends on the program: a thread that receives datagrams of another thread's
//! peer passes them on. This happens to IPv6 packets with extension headers, behind which the
//! program does not look for the port, and during an upgrade.
//!
//! The program cannot select the shard of a name, which would save the way to another thread. That
//! is a hash of a variable number of components with a 64-bit key (`forwarder/src/shard.rs`), which
//! classic BPF cannot compute, a datagram may have several packets, and the face of a peer needs
//! one thread for its fragments, acknowledgements and queue in any case.
//!
//! The hash is Multilinear (Lemire and Kaser, "Strongly universal string hashing is fast", 2014):
//! the sum of the address's and port's 16-bit words, each times a random number of 32 bits, of
//! which the upper half counts. Senders that do not know the numbers cannot gather at one thread.
#![allow(unsafe_code)]

use libc::{
    BPF_A, BPF_ABS, BPF_ADD, BPF_ALU, BPF_B, BPF_H, BPF_IMM, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K,
    BPF_LD, BPF_LDX, BPF_MEM, BPF_MSH, BPF_MUL, BPF_RET, BPF_RSH, BPF_ST, BPF_X, sock_filter,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// The words of an IPv6 address, and the port.
const WORDS: usize = 9;

/// The choice of a socket. All sockets of a group have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steering {
    /// The number to begin with, and that of each word: first the port's.
    key: [u32; WORDS + 1],
    sockets: u32,
}

impl Steering {
    /// A choice among so many sockets, at most [`larder_forwarder::limits::SHARDS`].
    pub(crate) fn new(sockets: usize) -> Self {
        Steering::with_key(larder_client::entropy::words(), sockets)
    }

    fn with_key(words: [u64; WORDS.div_ceil(2)], sockets: usize) -> Self {
        let halves = |index: usize| (words[index / 2] >> (index % 2 * 32)) as u32;
        Steering {
            key: std::array::from_fn(halves),
            sockets: sockets.max(1) as u32,
        }
    }

    /// Returns the number of sockets.
    pub(crate) fn sockets(&self) -> usize {
        self.sockets as usize
    }

    /// Returns the number of the socket, from 0, for datagrams of this sender.
    pub(crate) fn socket_of(&self, sender: SocketAddr) -> usize {
        let [start, of_port, of_address @ ..] = &self.key;
        let mut hash = start.wrapping_add(u32::from(sender.port()).wrapping_mul(*of_port));
        let mut add = |octets: &[u8]| {
            for (word, key) in octets.chunks_exact(2).zip(of_address) {
                let word = u32::from(u16::from_be_bytes([word[0], word[1]]));
                hash = hash.wrapping_add(word.wrapping_mul(*key));
            }
        };
        match sender.ip() {
            IpAddr::V4(v4) => add(&v4.octets()),
            IpAddr::V6(v6) => add(&v6.octets()),
        }
        (((hash >> 16) * self.sockets) >> 16) as usize
    }

    /// Makes the kernel choose in this way for the group of `socket`. The order of the sockets is
    /// that in which they were bound.
    ///
    /// # Errors
    /// The socket belongs to no group, or the kernel does not have this option.
    pub(crate) fn attach(&self, socket: &impl AsFd) -> io::Result<()> {
        let program = self.program();
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        // SAFETY: the descriptor is open for as long as `socket` is borrowed. The kernel reads the
        // sock_fprog and the `len` instructions behind its pointer during the call, and writes
        // neither; both outlive it.
        let result = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_REUSEPORT_CBPF,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Returns the program. It sees the UDP payload; the IP header is at [`libc::SKF_NET_OFF`].
    fn program(&self) -> Vec<sock_filter> {
        let [_, _, of_address @ ..] = &self.key;
        let v4 = self.family(12, &of_address[..2], PortAt::BehindIpv4Header);
        let v6 = self.family(8, of_address, PortAt::BehindIpv6Header);
        let mut program = vec![
            load(BPF_B, 0),
            step(BPF_ALU | BPF_RSH | BPF_K, 4),
            sock_filter {
                code: (BPF_JMP | BPF_JEQ | BPF_K) as u16,
                jt: 0,
                jf: v4.len() as u8,
                k: 4,
            },
        ];
        program.extend(v4);
        program.extend([
            load(BPF_B, 6),
            sock_filter {
                code: (BPF_JMP | BPF_JEQ | BPF_K) as u16,
                jt: 1,
                jf: 0,
                k: libc::IPPROTO_UDP as u32,
            },
            // Behind extension headers, the port is not looked for: the first thread passes these
            // datagrams on.
            step(BPF_RET | BPF_K, 0),
        ]);
        program.extend(v6);
        program
    }

    /// Returns the part of the program for one version of IP, with the address at this offset.
    fn family(&self, address: u32, keys: &[u32], port: PortAt) -> Vec<sock_filter> {
        let [start, of_port, ..] = self.key;
        let sum = 0;
        let add = |key: u32| {
            [
                step(BPF_ALU | BPF_MUL | BPF_K, key),
                step(BPF_LDX | BPF_MEM, sum),
                step(BPF_ALU | BPF_ADD | BPF_X, 0),
                step(BPF_ST, sum),
            ]
        };
        let mut program = vec![step(BPF_LD | BPF_IMM, start), step(BPF_ST, sum)];
        for (index, key) in keys.iter().enumerate() {
            program.push(load(BPF_H, address + 2 * index as u32));
            program.extend(add(*key));
        }
        match port {
            PortAt::BehindIpv4Header => program.extend([
                // X = four times the lower half of the first byte.
                step(BPF_LDX | BPF_B | BPF_MSH, net(0)),
                step(BPF_LD | BPF_H | BPF_IND, net(0)),
            ]),
            PortAt::BehindIpv6Header => program.push(load(BPF_H, 40)),
        }
        program.extend(add(of_port));
        program.extend([
            step(BPF_ALU | BPF_RSH | BPF_K, 16),
            step(BPF_ALU | BPF_MUL | BPF_K, self.sockets),
            step(BPF_ALU | BPF_RSH | BPF_K, 16),
            step(BPF_RET | BPF_A, 0),
        ]);
        program
    }
}

enum PortAt {
    BehindIpv4Header,
    BehindIpv6Header,
}

fn net(offset: u32) -> u32 {
    (libc::SKF_NET_OFF as u32).wrapping_add(offset)
}

fn load(size: u32, offset: u32) -> sock_filter {
    step(BPF_LD | size | BPF_ABS, net(offset))
}

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_units::Streams;
    use socket2::{Domain, Socket, Type};
    use std::net::UdpSocket;
    use std::time::Duration;

    fn group(address: SocketAddr, count: usize) -> Vec<UdpSocket> {
        let mut bound: Vec<UdpSocket> = Vec::new();
        for _ in 0..count {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None).unwrap();
            socket.set_reuse_port(true).unwrap();
            let at = bound
                .first()
                .map_or(address, |first| first.local_addr().unwrap());
            if at.is_ipv6() {
                socket.set_only_v6(false).unwrap();
            }
            socket.bind(&at.into()).unwrap();
            let socket = UdpSocket::from(socket);
            socket
                .set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            bound.push(socket);
        }
        bound
    }

    /// Failure: the kernel gives a peer's datagrams to another thread than that of its face, so
    /// each of them has to be passed on.
    #[test]
    fn the_kernel_chooses_another_socket() {
        for (wildcard, senders) in [
            ("0.0.0.0:0", &["127.0.0.1", "127.1.2.3"][..]),
            ("[::]:0", &["127.0.0.1", "127.9.8.7", "::1"]),
        ] {
            for count in [2, 3] {
                let Ok(_ipv6) = UdpSocket::bind(wildcard) else {
                    continue;
                };
                let sockets = group(wildcard.parse().unwrap(), count);
                let steering = Steering::new(count);
                steering.attach(&sockets[0]).unwrap();
                let port = sockets[0].local_addr().unwrap().port();
                let mut used = vec![0; count];
                for number in 0..40 {
                    let host = senders[number % senders.len()];
                    let sender = UdpSocket::bind((host, 0)).unwrap();
                    sender
                        .send_to(
                            &[number as u8],
                            (if host == "::1" { host } else { "127.0.0.1" }, port),
                        )
                        .unwrap();
                    let at = steering.socket_of(sender.local_addr().unwrap());
                    let mut buffer = [0; 10];
                    let received = sockets[at].recv_from(&mut buffer);
                    assert!(received.is_ok(), "{host}: not at {at} of {count}");
                    assert_eq!(buffer[0], number as u8);
                    used[at] += 1;
                }
                assert!(used.iter().all(|peers| *peers > 0), "{used:?} of {count}");
            }
        }
    }

    /// Failure: most peers gather at one thread.
    #[test]
    fn peers_gather_at_one_socket() {
        for sockets in [1, 2, 5, 64] {
            let mut random = Streams::new(sockets as u64).stream("key");
            let steering = Steering::with_key(std::array::from_fn(|_| random.bits()), sockets);
            let mut used = vec![0; sockets];
            for number in 0..6400_u32 {
                let [_, b, c, d] = number.wrapping_mul(2_654_435_761).to_be_bytes();
                let port = 1024 + number as u16;
                used[steering.socket_of(SocketAddr::new([10, b, c, d].into(), port))] += 1;
            }
            let fair = 6400 / sockets;
            assert!(
                used.iter()
                    .all(|peers| (fair / 2..=fair * 2).contains(peers)),
                "{used:?}"
            );
        }
    }
}

//! A packet(7) socket: Ethernet frames of one type on one interface, read and written whole.
//!
//! `unsafe`, because neither std nor socket2 nor rustix has packet(7)'s addresses, its multicast
//! memberships and the interface's MTU.
#![allow(unsafe_code)]

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};

/// A hardware address.
pub(crate) type Mac = [u8; 6];

/// A socket for frames of one Ethernet type.
pub(crate) struct PacketSocket {
    socket: Socket,
    /// The interface's own address.
    pub(crate) mac: Mac,
    /// Bytes of the largest frame behind its header.
    pub(crate) mtu: usize,
}

impl PacketSocket {
    /// Opens the socket on an interface for one EtherType, and joins a multicast group. Needs
    /// CAP_NET_RAW.
    pub(crate) fn open(interface: &str, ether_type: u16, group: Mac) -> io::Result<Self> {
        // Without a protocol, nothing arrives before the socket is bound to its interface.
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
        let index = rustix::net::netdevice::name_to_index(&socket, interface)?;
        let mut address = link_layer(index);
        address.sll_protocol = ether_type.to_be();
        socket.bind(&to_sock_addr(address)?)?;
        let bound = from_sock_addr(&socket.local_addr()?)?;
        if bound.sll_hatype != libc::ARPHRD_ETHER {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it is no Ethernet",
            ));
        }
        add_membership(&socket, index, group)?;
        socket.set_nonblocking(true)?;
        let mtu = mtu_of(&socket, interface)?;
        let [a, b, c, d, e, f, ..] = bound.sll_addr;
        Ok(PacketSocket {
            socket,
            mac: [a, b, c, d, e, f],
            mtu,
        })
    }

    /// Reads one frame with its header.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.socket).read(buffer)
    }

    /// Writes one frame with its header.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<usize> {
        (&self.socket).write(frame)
    }
}

impl AsRawFd for PacketSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn link_layer(index: u32) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is plain integers and an array of them; all zeros is a value of it.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index as i32;
    address
}

fn to_sock_addr(address: libc::sockaddr_ll) -> io::Result<SockAddr> {
    // SAFETY: the storage has room for any address (`sockaddr_storage`) and is aligned for it;
    // family and length are set to what is written.
    let made = unsafe {
        SockAddr::try_init(|storage, length| {
            storage.cast::<libc::sockaddr_ll>().write(address);
            *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            Ok(())
        })
    };
    made.map(|((), address)| address)
}

fn from_sock_addr(address: &SockAddr) -> io::Result<libc::sockaddr_ll> {
    if i32::from(address.family()) != libc::AF_PACKET {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the storage behind the pointer is a whole `sockaddr_storage`, larger than a
    // sockaddr_ll and aligned for it, and its family says that it is one.
    Ok(unsafe { address.as_ptr().cast::<libc::sockaddr_ll>().read() })
}

fn add_membership(socket: &Socket, index: u32, group: Mac) -> io::Result<()> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&group);
    let request = libc::packet_mreq {
        mr_ifindex: index as i32,
        mr_type: libc::PACKET_MR_MULTICAST as u16,
        mr_alen: 6,
        mr_address: address,
    };
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; the pointer and the
    // length are of `request`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request).cast(),
            size_of::<libc::packet_mreq>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn mtu_of(socket: &Socket, interface: &str) -> io::Result<usize> {
    // SAFETY: ifreq is a name and a union of plain integers; all zeros is a value of it.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // The last byte stays 0. A name that is longer was refused by `name_to_index`.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open, and SIOCGIFMTU reads the name from the ifreq and writes an
    // int into its union.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call that wrote this member succeeded.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as usize)
}

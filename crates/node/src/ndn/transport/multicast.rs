//! UDP multicast faces: all nodes on a network, as one face per interface and group (NFD wiki, "UDP
//! multicast"; 224.0.23.170 and ff02::1234, port 56363).
//!
//! Each has its own socket, bound to the group and the interface, so that it receives only this
//! group on this network. The machine does not receive its own frames. Each frame costs one system
//! call: discovery and sync groups use these faces, bulk data uses unicast.

use crate::config::NdnConfig;
use crate::limits;
use crate::ndn::error::NdnError;
use crate::ndn::transport::frames::{Frames, Refused};
use crate::ndn::transport::interfaces;
use crate::ndn::transport::kind::Transport;
use crate::ndn::transport::spare_buffers::SpareBuffers;
use crate::ndn::transport::udp::datagram::UdpListener;
use crate::ndn::transport::udp::path_mtu::path_to;
use larder_forwarder::LinkType;
use larder_forwarder::Send;
use larder_units::Time;
use mio::event::Source;
use mio::net::UdpSocket;
use socket2::{Domain, InterfaceIndexOrAddress, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// The socket of a multicast face, and its queue.
pub(crate) struct Multicast {
    pub(crate) socket: UdpSocket,
    pub(crate) group: SocketAddr,
    /// The local address on this network.
    pub(crate) local: SocketAddr,
    pub(crate) frames: Frames,
}

impl Multicast {
    /// Joins the group on this interface.
    pub(crate) fn join(interface: &str, group: SocketAddr, config: &NdnConfig) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(group), Type::DGRAM, None)?;
        let index = rustix::net::netdevice::name_to_index(&socket, interface)?;
        // Other forwarders on this machine may have joined too.
        socket.set_reuse_address(true)?;
        match group {
            SocketAddr::V4(v4) => {
                socket.bind(&group.into())?;
                socket.join_multicast_v4_n(v4.ip(), &InterfaceIndexOrAddress::Index(index))?;
                socket.set_multicast_loop_v4(false)?;
            }
            SocketAddr::V6(mut v6) => {
                socket.set_only_v6(true)?;
                v6.set_scope_id(index);
                socket.bind(&v6.into())?;
                socket.join_multicast_v6(v6.ip(), index)?;
                socket.set_multicast_if_v6(index)?;
                socket.set_multicast_loop_v6(false)?;
            }
        }
        socket.bind_device(Some(interface.as_bytes()))?;
        socket.set_nonblocking(true)?;
        let group = in_scope(group, index);
        let path = path_to(group, Some(interface))?;
        let local = SocketAddr::new(path.local.ip(), group.port());
        let mtu = config.udp_mtu.unwrap_or(limits::UDP_MTU);
        let frames = Frames::new(mtu, path.mtu, config.largest_packet);
        Ok(Multicast {
            socket: UdpSocket::from_std(socket.into()),
            group,
            local,
            frames,
        })
    }
}

impl Transport for Multicast {
    #[inline]
    fn queued(&self) -> usize {
        self.frames.bytes.len()
    }

    fn queue(
        &mut self,
        now: Time,
        send: &Send,
        input: &[u8],
        spare: &mut SpareBuffers,
    ) -> Result<(), Refused> {
        self.frames.queue(now, send, input, spare)
    }

    fn flush(&mut self, _: Option<&UdpListener>, spare: &mut SpareBuffers) -> io::Result<usize> {
        let Multicast {
            socket,
            group,
            frames,
            ..
        } = self;
        Ok(frames.flush_each(spare, |frame| socket.send_to(frame, *group)))
    }

    fn frames(&mut self) -> Option<&mut Frames> {
        Some(&mut self.frames)
    }

    fn source(&mut self) -> Option<&mut dyn Source> {
        Some(&mut self.socket)
    }

    fn configured_mtu(&self, udp_mtu: Option<usize>) -> Option<usize> {
        Some(udp_mtu.unwrap_or(limits::UDP_MTU))
    }
}

/// Joins the groups on the interfaces of the configuration.
pub(crate) fn join_all(config: &NdnConfig) -> Result<Vec<(String, Vec<Multicast>)>, NdnError> {
    let open = |interface: &str| {
        let join = |group: &SocketAddr| Multicast::join(interface, *group, config);
        let results: Vec<_> = config.udp_multicast_groups.iter().map(join).collect();
        // An interface may have only one version of IP.
        if results.iter().any(Result::is_ok) {
            Ok(results.into_iter().flatten().collect())
        } else {
            results.into_iter().collect::<io::Result<Vec<_>>>()
        }
    };
    interfaces::for_each("udp_multicast", &config.udp_multicast, open)
}

/// Joins the groups and leaves them again.
///
/// # Errors
/// One line that names the interface.
pub(crate) fn check(config: &NdnConfig) -> Result<(), NdnError> {
    join_all(config).map(drop)
}

/// Returns the group with the interface as its scope, if it is a link-local IPv6 group.
pub(crate) fn in_scope(group: SocketAddr, index: u32) -> SocketAddr {
    match group {
        SocketAddr::V6(mut v6) => {
            v6.set_scope_id(index);
            v6.into()
        }
        v4 => v4,
    }
}

/// Returns the link type of an interface as the configuration says.
pub(crate) fn link_type(config: &NdnConfig, interface: &str) -> LinkType {
    if config
        .ad_hoc
        .iter()
        .any(|name| name == interface || name == "*")
    {
        LinkType::AdHoc
    } else {
        LinkType::MultiAccess
    }
}

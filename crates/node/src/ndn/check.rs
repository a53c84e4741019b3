//! Tries whether the NDN side could start.

use crate::config::NdnConfig;
use crate::inherited::{Inherited, Role};
use crate::ndn::control::settings;
use crate::ndn::error::NdnError;
use crate::ndn::transport::listen::{remove_empty, socket_folders, try_tcp, unix};
use crate::ndn::transport::udp::group;
use crate::ndn::transport::{ethernet, multicast};
use larder_host::{ListenAddress, Preflight};

/// Tries the steps of a start: listeners without an inherited socket, interfaces, certificates and
/// routes.
pub(crate) fn check(config: &NdnConfig, inherited: &Inherited, preflight: &mut Preflight) {
    preflight.add(config.rules().err());
    preflight.add(config.verification().err());
    let is_inherited = |role, address| inherited.has(role, &ListenAddress::Tcp(address));
    let streams = [
        ("tcp", Role::NdnTcp, config.tcp),
        ("websocket", Role::NdnWebsocket, config.websocket),
    ];
    for (key, role, address) in streams {
        let Some(address) = address.filter(|address| !is_inherited(role, *address)) else {
            continue;
        };
        preflight.hold(try_tcp(address, &[]), |error| NdnError::Listen {
            key,
            address,
            error,
        });
    }
    if let Some(address) = config
        .udp
        .filter(|address| !is_inherited(Role::NdnUdp, *address))
    {
        let listen = |error| NdnError::Listen {
            key: "udp",
            address,
            error,
        };
        preflight.hold(group::bind(address, 1, &[]), listen);
    }
    preflight.add(multicast::check(config).err());
    preflight.add(ethernet::check(config).err());
    let targets = config
        .routes
        .iter()
        .filter(|_| config.udp.is_none())
        .map(|route| &route.to);
    for target in targets {
        preflight.add(settings::udp_is_off(target));
    }
    // A running node occupies the path of its own socket.
    if let Some(setting) = config.unix.as_ref().filter(|_| !preflight.is_running()) {
        let made = socket_folders(config);
        match unix(setting.path(), &mut Inherited::default()) {
            Ok((_, path)) => drop(std::fs::remove_file(path)),
            Err(problem) => preflight.add(Some(problem)),
        }
        // The trial leaves nothing behind.
        remove_empty(&made);
    }
}

//! Opens the listeners.

use super::EventLoop;
use crate::config::NdnConfig;
use crate::ndn::address::with_ipv4_fallback;
use crate::ndn::datagram::UdpListener;
use crate::ndn::error::NdnError;
use crate::ndn::listen::{face_uri, tcp, unix};
use crate::ndn::tokens::{TCP, UDP, UNIX, WEBSOCKET};
use mio::Interest;
use std::path::PathBuf;

impl EventLoop {
    /// Binds the listeners of the configuration. Returns their addresses for messages, and the path
    /// of the Unix socket.
    pub(in crate::ndn) fn listen(&mut self, config: &NdnConfig) -> Result<(Vec<String>, Option<PathBuf>), NdnError> {
        let (mut listening, mut channels) = (Vec::new(), Vec::new());
        let registry = self.poll.registry();
        let register = |source: &mut dyn mio::event::Source, token| {
            registry.register(source, token, Interest::READABLE).map_err(NdnError::Events)
        };
        if let Some(address) = config.tcp {
            let mut listener = tcp("tcp", address)?;
            register(&mut listener, TCP)?;
            let address = listener.local_addr().unwrap_or(address);
            listening.push(format!("tcp://{address}"));
            channels.push(face_uri("tcp", address));
            self.listeners.tcp = Some(listener);
        }
        if let Some(address) = config.udp {
            let mut listener = with_ipv4_fallback(address, UdpListener::bind).map_err(|error| NdnError::Listen {
                key: "udp",
                address,
                error,
            })?;
            let both = Interest::READABLE | Interest::WRITABLE;
            registry.register(listener.socket(), UDP, both).map_err(NdnError::Events)?;
            let address = listener.socket().local_addr().unwrap_or(address);
            listening.push(format!("udp://{address}"));
            self.listeners.udp_address = address;
            channels.push(face_uri("udp", address));
            self.listeners.udp = Some(listener);
        }
        if let Some(address) = config.websocket {
            let mut listener = tcp("websocket", address)?;
            register(&mut listener, WEBSOCKET)?;
            let uri = format!("ws://{}", listener.local_addr().unwrap_or(address));
            listening.push(uri.clone());
            channels.push(uri);
            self.listeners.websocket = Some(listener);
        }
        listening.extend(self.join_groups(config)?);
        let devices = self.open_ethernet(config)?;
        listening.extend(devices.iter().cloned());
        channels.extend(devices);
        let registry = self.poll.registry();
        // The Unix socket is last, because it leaves a file behind if a later step fails.
        if let Some(setting) = &config.unix {
            let (mut listener, path) = unix(setting.path())?;
            registry.register(&mut listener, UNIX, Interest::READABLE).map_err(NdnError::Events)?;
            let uri = format!("unix://{}", path.display());
            listening.insert(0, uri.clone());
            channels.insert(0, uri);
            self.listeners.unix = Some((listener, path));
        }
        self.forwarder.set_channels(channels);
        Ok((listening, self.listeners.unix.as_ref().map(|(_, path)| path.clone())))
    }
}

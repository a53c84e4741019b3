//! The listeners that are served, and the threads that serve them.

use super::error::{Error, Problem};
use super::https_redirect::HttpsRedirect;
use super::listen::{Control, Listener};
use super::listen_address::ListenAddress;
use super::listeners::{Bound, Listeners, SocketFile, setting};
use super::phase::{Phase, PhaseSwitch, PhaseWatch};
use super::plain::PlainHits;
use super::proxy::Proxy;
use super::sockets::ListenSocket;
use super::tls::Identity;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The listeners of [`super::Http`] while it runs.
pub(super) struct ServedListeners {
    listeners: Mutex<Vec<(Bound, PhaseSwitch)>>,
    /// One for each thread.
    controls: Vec<Control>,
    proxy: Arc<Proxy>,
    identity: Option<Arc<Identity>>,
    redirect_to_https: bool,
}

/// A listening socket for another process.
#[derive(Debug)]
pub struct HandedSocket {
    /// Another descriptor of the socket.
    pub socket: ListenSocket,
    /// True if the process that stops listening removes the socket's file.
    pub owns_file: bool,
}

impl ServedListeners {
    pub(super) fn new(
        controls: Vec<Control>,
        proxy: &Arc<Proxy>,
        identity: Option<&Arc<Identity>>,
        redirect_to_https: bool,
    ) -> ServedListeners {
        let (listeners, proxy, identity) = (Mutex::default(), Arc::clone(proxy), identity.cloned());
        ServedListeners { listeners, controls, proxy, identity, redirect_to_https }
    }

    fn all(&self) -> MutexGuard<'_, Vec<(Bound, PhaseSwitch)>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves these listeners too, on all threads: a free one accepts.
    ///
    /// # Errors
    /// One line if the system has no descriptor for them. None of them is served then.
    pub(super) fn add(&self, added: Listeners) -> Result<(), Error> {
        let mut listeners = self.all();
        let locals = || listeners.iter().map(|(bound, _)| bound).chain(added.iter());
        let https = locals().filter(|bound| bound.is_secure()).find_map(|bound| bound.local().tcp());
        let redirect = HttpsRedirect { port: https.map_or(443, |address| address.port()) };
        let mut parts = Vec::new();
        for bound in added.iter() {
            let (switch, phase) = PhaseSwitch::new();
            let part = |_| {
                let socket = bound.socket().try_clone();
                let socket =
                    socket.map_err(|error| Error::setting(setting(bound.is_secure()), Problem::Listener(error)))?;
                Ok(self.listener(bound, socket, redirect, phase.clone()))
            };
            let of_threads = (0..self.controls.len()).map(part).collect::<Result<Vec<_>, Error>>()?;
            parts.push((switch, of_threads));
        }
        for (bound, (switch, of_threads)) in added.0.into_iter().zip(parts) {
            self.controls.iter().zip(of_threads).for_each(|(control, listener)| control.listen(listener));
            listeners.push((bound, switch));
        }
        Ok(())
    }

    fn listener(&self, bound: &Bound, socket: ListenSocket, redirect: HttpsRedirect, phase: PhaseWatch) -> Listener {
        let scheme = if bound.is_secure() { "https" } else { "http" };
        Listener {
            socket,
            identity: self.identity.clone().filter(|_| bound.is_secure()),
            plain: Some(PlainHits::new(&self.proxy, scheme)),
            proxy_protocol: bound.config.proxy_protocol,
            redirect: (self.redirect_to_https && !bound.is_secure()).then_some(redirect),
            phase,
        }
    }

    /// Returns the actual addresses, each with true for TLS.
    pub(super) fn addresses(&self) -> Vec<(ListenAddress, bool)> {
        self.all().iter().map(|(bound, _)| (bound.local().clone(), bound.is_secure())).collect()
    }

    /// Begins a phase of all listeners.
    pub(super) fn begin(&self, phase: Phase) {
        self.all().iter().for_each(|(_, switch)| switch.begin(phase));
    }

    /// Ends the threads when their connections have ended, and at the latest after this time.
    pub(super) fn stop(&self, within: Duration) {
        self.controls.iter().for_each(|control| control.stop(within));
    }

    /// Returns the sockets for another process, each with true for TLS.
    pub(super) fn sockets(&self) -> std::io::Result<Vec<(HandedSocket, bool)>> {
        let handed = |(bound, _): &(Bound, PhaseSwitch)| {
            let handed = HandedSocket { socket: bound.socket().try_clone()?, owns_file: bound.file.is_some() };
            Ok((handed, bound.is_secure()))
        };
        self.all().iter().map(handed).collect()
    }

    /// Leaves the socket files in place when the listeners are dropped.
    pub(super) fn leave_files(&self) {
        self.all().iter_mut().filter_map(|(bound, _)| bound.file.take()).for_each(SocketFile::leave);
    }

    /// Removes the files at these paths when their listeners are dropped.
    pub(super) fn own_files(&self, paths: &[PathBuf]) {
        for (bound, _) in self.all().iter_mut() {
            if let ListenAddress::Unix(path) = &bound.config.address
                && paths.contains(path)
            {
                bound.file = SocketFile::of(&bound.config);
            }
        }
    }
}

//! The admin server: the pages of `larder-admin`, on a thread and a listener of their own, over the
//! same connections as the clients of the cache. It listens on loopback by default.
//!
//! It is the first part of a node that starts and the last that stops.

use crate::accept::listen;
use crate::accept::serving::Bounds;
use crate::base::drain::{Phase, PhaseSwitch};
use crate::base::error::{Error, Problem};
use crate::base::http_limits::HttpLimits;
use crate::base::live_limits::LiveLimits;
use crate::base::timeouts::Timeouts;
use hyper::service::service_fn;
use larder_admin::{AdminPages, Console, NodeCommands, Purging, StatusSource, limits};
use larder_host::bind_listener;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The running admin server.
pub struct Admin {
    local: SocketAddr,
    pages: Arc<AdminPages>,
    listener: TcpListener,
    phase: PhaseSwitch,
    control: listen::Control,
    thread: JoinHandle<()>,
}

impl Admin {
    /// Binds the address.
    ///
    /// # Errors
    /// One line that names the setting and its problem.
    pub fn bind(listen: SocketAddr) -> Result<TcpListener, Error> {
        Ok(bind_listener("[admin] listen", listen, None)?)
    }

    /// Binds another address, which may overlap that of this server: it is about to stop.
    ///
    /// # Errors
    /// As [`Admin::bind`].
    pub fn bind_beside(&self, listen: SocketAddr) -> Result<TcpListener, Error> {
        Ok(bind_listener(
            "[admin] listen",
            listen,
            Some(&self.listener),
        )?)
    }

    /// Starts a thread that tells on this socket that the node is alive and not ready. It serves
    /// the console, and takes its readings.
    ///
    /// # Errors
    /// As [`Admin::bind`].
    pub fn open(listener: TcpListener, console: &Arc<Console>) -> Result<Admin, Error> {
        let of_listener = |error| Error::setting("[admin] listen", Problem::Listener(error));
        let local = listener.local_addr().map_err(of_listener)?;
        let pages = Arc::new(AdminPages::new(console));
        let (answers, readings) = (Arc::clone(&pages), Arc::clone(&pages));
        let (phase, watch, accepting) = PhaseSwitch::new();
        let (control, commands) = listen::Control::new();
        control.listen(listen::Listener::simple(
            listener.try_clone().map_err(of_listener)?,
            watch,
            accepting,
        ));
        let timeouts = Timeouts {
            client_header: limits::ADMIN_HEADER_READ,
            keepalive: limits::ADMIN_HEADER_READ,
            ..Timeouts::default()
        };
        let most = HttpLimits {
            connections: limits::ADMIN_CONNECTIONS,
            ..HttpLimits::default()
        };
        let bounds = Bounds::new(&LiveLimits::new(timeouts, most));
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                listen::serve(commands, bounds, readings.take_readings(), move |client| {
                    let (pages, peer) = (Arc::clone(&answers), client.peer);
                    service_fn(move |request| {
                        let pages = Arc::clone(&pages);
                        Box::pin(
                            async move { Ok::<_, Infallible>(pages.respond(request, peer).await) },
                        )
                    })
                });
            })
            .map_err(Error::Thread)?;
        Ok(Admin {
            local,
            pages,
            listener,
            phase,
            control,
            thread,
        })
    }

    /// Serves the figures of `sources`, purges if they are enabled, and commands for the node, in
    /// the place of those of an earlier call. The node is ready.
    pub fn serve(
        &self,
        sources: Vec<Arc<dyn StatusSource>>,
        purging: Option<Arc<Purging>>,
        commands: Option<Arc<NodeCommands>>,
    ) {
        self.pages.serve(sources, purging, commands);
    }

    /// Opens the server for a node that is ready, with a console for this machine.
    ///
    /// # Errors
    /// As [`Admin::bind`].
    pub fn start(
        listen: SocketAddr,
        sources: Vec<Arc<dyn StatusSource>>,
        purging: Option<Arc<Purging>>,
    ) -> Result<Admin, Error> {
        let admin = Admin::open(Admin::bind(listen)?, &Arc::default())?;
        admin.serve(sources, purging, None);
        Ok(admin)
    }

    /// Tells at `/readyz` that the node stops.
    pub fn set_stopping(&self) {
        self.pages.set_stopping();
    }

    /// Returns the listening socket for another process.
    ///
    /// # Errors
    /// The system's, if there is no descriptor left.
    pub fn socket(&self) -> std::io::Result<TcpListener> {
        self.listener.try_clone()
    }

    /// Leaves the listener to another process: open connections end with their next answer.
    pub fn drain(&self) {
        self.phase.begin(Phase::Draining);
        self.end_streams();
    }

    /// Ends the answers that do not end by themselves: open consoles and captures.
    pub fn end_streams(&self) {
        self.pages.end_streams();
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Stops the thread and waits for its end.
    pub fn stop(self) {
        self.phase.begin(Phase::Closing);
        self.end_streams();
        self.control.stop(limits::ADMIN_STOP_GRACE);
        // Fails only if the thread has panicked, which is logged.
        let _ = self.thread.join();
    }
}

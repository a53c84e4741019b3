//! The generated origin as a separate server, for testbeds that measure what stands before it.

use crate::accept::listen;
use crate::accept::serving::Bounds;
use crate::base::drain::{Phase, PhaseSwitch};
use crate::base::error::{Error, Problem};
use crate::base::http_limits::HttpLimits;
use crate::base::limits;
use crate::base::live_limits::LiveLimits;
use crate::base::timeouts::Timeouts;
use crate::message::body::BodyError;
use crate::message::client_body::ClientBody;
use crate::origin::generated_origin;
use crate::origin::origin_body::OriginBody;
use ::http::uri::PathAndQuery;
use ::http::{Request, Response};
use hyper::service::service_fn;
use larder_host::bind_listener;
use std::net::SocketAddr;
use std::thread::JoinHandle;

/// A running origin that generates an object of any size, as the default configuration's does. Its
/// front page lists the options.
pub struct OriginServer {
    local: SocketAddr,
    phase: PhaseSwitch,
    threads: Vec<(listen::Control, JoinHandle<()>)>,
}

impl OriginServer {
    /// Starts so many threads, at least one. The kernel gives a connection to the first free
    /// thread.
    ///
    /// # Errors
    /// One line about the address.
    pub fn start(listen: SocketAddr, threads: usize) -> Result<OriginServer, Error> {
        let listener = bind_listener("--listen", listen, None)?;
        let of_listener = |error| Error::setting("--listen", Problem::Listener(error));
        let local = listener.local_addr().map_err(of_listener)?;
        let (phase, watch, accepting) = PhaseSwitch::new();
        let thread = |_| {
            let listener = listener.try_clone().map_err(of_listener)?;
            let (control, commands) = listen::Control::new();
            control.listen(listen::Listener::simple(
                listener,
                watch.clone(),
                accepting.clone(),
            ));
            let bounds = Bounds::new(&LiveLimits::new(Timeouts::default(), HttpLimits::default()));
            let thread = std::thread::Builder::new()
                .name("origin".to_owned())
                .spawn(move || {
                    listen::serve(commands, bounds, std::future::ready(()), |_client| {
                        service_fn(|request| Box::pin(respond(request)))
                    });
                })
                .map_err(Error::Thread)?;
            Ok::<_, Error>((control, thread))
        };
        let threads = (0..threads.max(1)).map(thread).collect::<Result<_, _>>()?;
        Ok(OriginServer {
            local,
            phase,
            threads,
        })
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until the process ends.
    pub fn run(self) {
        for (_control, thread) in self.threads {
            let _ = thread.join();
        }
    }

    /// Stops cleanly, as a node does.
    pub fn stop(self) {
        self.phase.begin(Phase::Closing);
        let (controls, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        for control in &controls {
            control.stop(limits::STOP_GRACE);
        }
        for thread in threads {
            drop(thread.join());
        }
    }
}

async fn respond(request: Request<ClientBody>) -> Result<Response<OriginBody>, BodyError> {
    let root = PathAndQuery::from_static("/");
    let target = request.uri().path_and_query().unwrap_or(&root);
    Ok(
        generated_origin::respond(request.method(), target, request.headers())
            .await
            .map(OriginBody::Generated),
    )
}

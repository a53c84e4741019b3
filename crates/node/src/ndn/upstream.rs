//! Forwarders that the configuration's routes name. Their faces are created again when they are
//! gone.

use super::event_loop::EventLoop;
use super::faces::TOO_MANY_FACES;
use super::stream::Socket;
use crate::config::{NdnConfig, RouteTarget};
use crate::limits::{RECONNECT_FIRST, RECONNECT_MOST};
use larder_forwarder::{FaceConfig, FaceId, Persistency, Route};
use larder_packet::Name;
use larder_units::Time;
use mio::net::{TcpStream, UnixStream};
use std::time::Duration;

/// Origin of routes from the configuration (NFD management protocol: static).
const ORIGIN_STATIC: u64 = 255;

/// One upstream, and its routes.
pub(super) struct Upstream {
    pub(super) target: RouteTarget,
    pub(super) routes: Vec<(Name, u64)>,
    /// True if one of the routes asks for link reliability.
    reliable: bool,
    /// Its face, while there is one.
    pub(super) face: Option<FaceId>,
    /// The time of the next attempt.
    retry: Time,
    wait: Duration,
}

impl Upstream {
    /// The upstreams of a configuration, each with all its routes.
    pub(super) fn of(config: &NdnConfig) -> Vec<Upstream> {
        let mut upstreams: Vec<Upstream> = Vec::new();
        for route in &config.routes {
            let to = (route.prefix.clone(), route.cost);
            match upstreams.iter_mut().find(|upstream| upstream.target == route.to) {
                Some(upstream) => {
                    upstream.routes.push(to);
                    upstream.reliable |= route.reliable;
                }
                None => upstreams.push(Upstream {
                    target: route.to.clone(),
                    routes: vec![to],
                    reliable: route.reliable,
                    face: None,
                    retry: Time::ZERO,
                    wait: RECONNECT_FIRST,
                }),
            }
        }
        upstreams
    }

    /// Returns true if it has to be connected now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.face.is_none() && now >= self.retry
    }

    /// Records that the connection failed, or that the face is gone.
    pub(super) fn lost(&mut self, now: Time) {
        self.face = None;
        self.retry = now + self.wait;
        self.wait = (self.wait * 2).min(RECONNECT_MOST);
    }

    /// Records that something came from it: the next loss begins with the shortest wait again.
    pub(super) fn heard(&mut self) {
        self.wait = RECONNECT_FIRST;
    }
}

impl EventLoop {
    /// Adds the configured routes and connects their upstreams. Those that fail, or fail later, are
    /// tried again.
    pub(super) fn add_routes(&mut self, config: &NdnConfig) -> Result<(), String> {
        let upstreams = Upstream::of(config);
        self.check_upstreams(&upstreams)?;
        self.upstreams = upstreams;
        self.connect_upstreams(self.now());
        Ok(())
    }

    /// Replaces the upstreams. Faces of both lists stay; faces without a route are closed.
    pub(super) fn set_upstreams(&mut self, now: Time, upstreams: Vec<Upstream>) {
        let mut before = std::mem::replace(&mut self.upstreams, upstreams);
        for mut upstream in std::mem::take(&mut self.upstreams) {
            if let Some(at) = before.iter().position(|old| old.target == upstream.target) {
                let old = before.swap_remove(at);
                (upstream.face, upstream.retry, upstream.wait) = (old.face, old.retry, old.wait);
                if let Some(face) = upstream.face {
                    let gone = old
                        .routes
                        .iter()
                        .filter(|(prefix, _)| !upstream.routes.iter().any(|(still, _)| still == prefix));
                    gone.for_each(|(prefix, _)| self.forwarder.remove_route(prefix, face, ORIGIN_STATIC));
                    self.add_routes_of(&upstream, face);
                    if upstream.reliable != old.reliable {
                        self.be_reliable(face, upstream.reliable);
                    }
                }
            }
            self.upstreams.push(upstream);
        }
        for face in before.into_iter().filter_map(|old| old.face) {
            self.close(face, Some("no [[ndn.route]] goes there any more".to_owned()));
        }
        self.connect_upstreams(now);
    }

    fn add_routes_of(&mut self, upstream: &Upstream, face: FaceId) {
        for (prefix, cost) in &upstream.routes {
            let flags = larder_forwarder::CHILD_INHERIT;
            let route = Route { face, origin: ORIGIN_STATIC, cost: *cost, flags, expires: None };
            if let Err(error) = self.forwarder.add_route(prefix, route) {
                tracing::error!(%prefix, to = %upstream.target, %error, "[[ndn.route]] cannot be added");
            }
        }
    }

    pub(super) fn connect_upstreams(&mut self, now: Time) {
        let mut upstreams = std::mem::take(&mut self.upstreams);
        for upstream in upstreams.iter_mut().filter(|upstream| upstream.is_due(now)) {
            match self.connect(&upstream.target) {
                Ok(face) => {
                    upstream.face = Some(face);
                    self.add_routes_of(upstream, face);
                    if upstream.reliable {
                        self.be_reliable(face, true);
                    }
                }
                Err(error) => {
                    tracing::warn!(to = %upstream.target, error, "[[ndn.route]] cannot be connected; it is tried again");
                    upstream.lost(now);
                }
            }
        }
        self.upstreams = upstreams;
    }

    fn connect(&mut self, target: &RouteTarget) -> Result<FaceId, String> {
        match target {
            RouteTarget::Udp(address) => {
                self.add_udp(*address, |config| config.with_persistency(Persistency::Permanent))
            }
            RouteTarget::Tcp(address) => {
                // The connection is being made. A failure shows when it is read.
                let socket = TcpStream::connect(*address).map_err(|error| error.to_string())?;
                self.add_tcp(socket, *address, 0, |config| config).ok_or_else(|| TOO_MANY_FACES.to_owned())
            }
            RouteTarget::Unix(path) => {
                let socket = UnixStream::connect(path).map_err(|error| error.to_string())?;
                let uri = format!("unix://{}", path.display());
                self.add_stream(FaceConfig::local(uri), Socket::Unix(socket), 0)
                    .ok_or_else(|| TOO_MANY_FACES.to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_upstream_that_stays_away_is_asked_ever_more_rarely() {
        let text =
            "[[ndn.route]]\nprefix = \"/a\"\nto = \"unix:///a\"\n[[ndn.route]]\nprefix = \"/b\"\nto = \"unix:///a\"\n";
        let config = Config::parse(text, "t").unwrap_or_else(|error| panic!("{error}"));
        let mut upstreams = Upstream::of(&config.ndn);
        assert_eq!(upstreams.len(), 1, "one face for both routes");
        let upstream = &mut upstreams[0];
        assert_eq!(upstream.routes.len(), 2);
        let (mut now, mut waits) = (Time::ZERO, Vec::new());
        for _ in 0..7 {
            assert!(upstream.is_due(now));
            upstream.lost(now);
            let start = now;
            while !upstream.is_due(now) {
                now += Duration::from_secs(1);
            }
            waits.push(now.since(start).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        upstream.heard();
        upstream.lost(now);
        assert!(upstream.is_due(now + Duration::from_secs(1)));
    }
}

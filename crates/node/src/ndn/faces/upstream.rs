//! Forwarders that the configuration's routes name. Their faces are created again when they are
//! gone.

use crate::config::{NdnConfig, RouteTarget};
use crate::limits::{RECONNECT_FIRST, RECONNECT_MOST};
use larder_forwarder::FaceId;
use larder_packet::Name;
use larder_units::Time;
use std::time::Duration;

/// Origin of routes from the configuration (NFD management protocol: static).
pub(crate) const ORIGIN_STATIC: u64 = 255;

/// One upstream, and its routes.
pub(crate) struct Upstream {
    pub(crate) target: RouteTarget,
    pub(crate) routes: Vec<(Name, u64)>,
    /// True if one of the routes asks for link reliability.
    pub(crate) reliable: bool,
    /// Its face, while there is one.
    pub(crate) face: Option<FaceId>,
    /// The time of the next attempt.
    pub(crate) retry: Time,
    pub(crate) wait: Duration,
}

impl Upstream {
    /// The upstreams of a configuration, each with all its routes.
    pub(crate) fn of(config: &NdnConfig) -> Vec<Upstream> {
        let mut upstreams: Vec<Upstream> = Vec::new();
        for route in &config.routes {
            let to = (route.prefix.clone(), route.cost);
            match upstreams
                .iter_mut()
                .find(|upstream| upstream.target == route.to)
            {
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
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.face.is_none() && now >= self.retry
    }

    /// Records that the connection failed, or that the face is gone.
    pub(crate) fn lost(&mut self, now: Time) {
        self.face = None;
        self.retry = now + self.wait;
        self.wait = (self.wait * 2).min(RECONNECT_MOST);
    }

    /// Records that the node has another UDP socket: a UDP upstream is connected by it at once.
    pub(crate) fn udp_changed(&mut self, now: Time) {
        if let RouteTarget::Udp(_) = self.target {
            (self.retry, self.wait) = (now, RECONNECT_FIRST);
        }
    }

    /// Records that something came from it: the next loss begins with the shortest wait again.
    pub(crate) fn heard(&mut self) {
        self.wait = RECONNECT_FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_upstream_that_stays_away_is_asked_ever_more_rarely() {
        let text = "[[ndn.route]]\nprefix = \"/a\"\nto = \"unix:///a\"\n[[ndn.route]]\nprefix = \"/b\"\nto = \"unix:///a\"\n";
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

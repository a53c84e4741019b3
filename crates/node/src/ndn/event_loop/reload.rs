//! Applies the settings of a reload.

use super::EventLoop;
use crate::ndn::bounds::Bounds;
use crate::ndn::control::settings::{Reload, Settings, udp_is_off};
use crate::ndn::error::NdnError;
use crate::ndn::faces::upstream::Upstream;
use crate::ndn::guard::udp_faces::PeerSetting;
use crate::ndn::send::link::Link;
use crate::ndn::shards::command::Command;
use larder_policy::Engine;
use larder_units::{Streams, Time};

impl EventLoop {
    /// Applies the new settings.
    pub(super) fn reload(&mut self, now: Time, reload: Reload) -> Result<(), NdnError> {
        let Reload {
            settings,
            rules,
            verification,
            regions,
            readvertise,
            ..
        } = reload;
        let Reload {
            upstreams,
            listeners,
            origins,
            bounds,
            ..
        } = reload;
        let has_udp = listeners
            .udp
            .as_ref()
            .map_or(self.listeners.udp.is_some(), |group| !group.is_empty());
        check_upstreams(&upstreams, has_udp)?;
        let part = self.shard_channel.shard.part_of(settings.content_store);
        Engine::new(&settings.policy, part, &Streams::new(0)).map_err(NdnError::Policy)?;
        self.replace_listeners(now, listeners)?;
        // Its policy was tried above.
        self.set_store(now, &settings)?;
        self.listeners.origins = origins;
        self.reload_bounds(bounds);
        let before = &self.applied;
        for (prefix, _) in &before.strategies {
            if !settings.strategies.iter().any(|(still, _)| still == prefix) {
                self.forwarder.unset_strategy(prefix);
            }
        }
        for choice in &settings.strategies {
            if !before.strategies.contains(choice)
                && let Err(error) = self.forwarder.set_strategy(&choice.0, &choice.1)
            {
                tracing::error!(prefix = %choice.0, %error, "[[ndn.strategy]] cannot be set");
            }
        }
        if before.count_by != settings.count_by {
            self.forwarder.set_figures_by_prefix(settings.count_by);
        }
        self.forwarder.set_rules(rules);
        self.forwarder.set_verification(verification);
        self.forwarder.set_network_regions(regions);
        self.forwarder.set_readvertise(readvertise);
        self.applied = settings;
        self.set_upstreams(now, upstreams);
        Ok(())
    }

    fn set_store(&mut self, now: Time, settings: &Settings) -> Result<(), NdnError> {
        let before = &self.applied;
        let policy_changed = before.policy.to_string() != settings.policy.to_string();
        if policy_changed || before.content_store != settings.content_store {
            // A change of the capacity alone keeps what the policy has learned.
            if policy_changed {
                self.forwarder
                    .set_policy(now, &settings.policy, Some(settings.content_store))
                    .map_err(NdnError::Policy)?
            } else {
                self.forwarder.set_capacity(now, settings.content_store)
            }
        }
        Ok(())
    }

    /// Applies bounds of the configuration here and at the other threads.
    fn reload_bounds(&mut self, bounds: Bounds) {
        let bounds = self.bounds.reloaded(bounds);
        for shard in self.shard_channel.others() {
            self.shard_channel.port(shard).send(Command::Bounds(bounds));
        }
        self.set_bounds(bounds);
        while self.places.has_too_many(&self.bounds) && self.close_least_entitled() {}
    }

    /// Applies bounds.
    pub(super) fn set_bounds(&mut self, bounds: Bounds) {
        let before = std::mem::replace(&mut self.bounds, bounds);
        if before.udp_mtu != bounds.udp_mtu {
            self.set_udp_mtus(bounds.udp_mtu);
        }
        self.forwarder.set_reassembly_bytes(bounds.partial_input);
        let verdict = self.places.partial.set_budget(bounds.partial_input);
        self.obey_budget(verdict);
    }

    /// Gives the faces of UDP peers and of groups the size of frames of the configuration.
    fn set_udp_mtus(&mut self, udp_mtu: Option<usize>) {
        let mtu = |link: &Link| link.connection.configured_mtu(udp_mtu);
        let mtus: Vec<_> = self
            .links
            .iter()
            .filter_map(|(face, link)| Some((face, mtu(link)?)))
            .collect();
        for (face, mtu) in mtus {
            self.change_peer(face, PeerSetting::Mtu(mtu));
        }
    }
}

/// Checks that these upstreams can be connected to.
pub(super) fn check_upstreams(upstreams: &[Upstream], has_udp: bool) -> Result<(), NdnError> {
    let problem = upstreams
        .iter()
        .find_map(|upstream| udp_is_off(&upstream.target));
    problem.filter(|_| !has_udp).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::NdnConfig;
    use crate::inherited::Inherited;
    use crate::ndn::shards::channel::{Port, shard_contexts};
    use crate::ndn::transport::new_listeners::{Bound, NewListeners, RunningListeners};
    use crate::ndn::{Command, Ndn, Snapshot};
    use larder_forwarder::FaceId;
    use larder_packet::Name;
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, mpsc};

    fn config(text: &str) -> NdnConfig {
        let text = format!(
            "[ndn]\nunix = \"\"\ntcp = \"\"\nwebsocket = \"\"\nudp = \"127.0.0.1:0\"\n{text}"
        );
        Config::parse(&text, "t")
            .unwrap_or_else(|error| panic!("{error}"))
            .ndn
    }

    fn route(prefix: &str, port: u16, cost: u64) -> String {
        format!(
            "[[ndn.route]]\nprefix = \"{prefix}\"\nto = \"udp://127.0.0.1:{port}\"\ncost = {cost}\n"
        )
    }

    /// Returns a node of one thread that serves this configuration.
    fn started(config: &NdnConfig) -> EventLoop {
        let shard_context = shard_contexts(1, 1 << 20).unwrap().1.remove(0);
        let mut node = EventLoop::new(config, shard_context, None).unwrap();
        let bound = Bound::new(
            config,
            1,
            &RunningListeners::default(),
            &mut Inherited::default(),
        )
        .unwrap();
        node.replace_listeners(Time::ZERO, bound.listeners).unwrap();
        node.add_routes(config).unwrap();
        node
    }

    fn face_of(node: &EventLoop, port: u16) -> Option<FaceId> {
        let uri = format!("udp4://127.0.0.1:{port}");
        let faces = node.forwarder.face_stats();
        let face = faces.into_iter().find(|face| face.config.uri == uri);
        face.map(|face| face.id)
    }

    fn of_root(node: &EventLoop) -> String {
        let strategy = node.forwarder.strategy_of(&Name::root());
        strategy.unwrap().to_string()
    }

    /// Failure: a setting of the operator is lost, a face in use is closed, or a setting that the
    /// file no longer has stays.
    #[test]
    fn what_the_file_says_now_is_what_runs_and_nothing_else_is_touched() {
        let strategy = |prefix: &str| {
            format!("[[ndn.strategy]]\nprefix = \"{prefix}\"\nstrategy = \"multicast\"\n")
        };
        let strategies = strategy("/") + &strategy("/s");
        let routes = route("/a", 7001, 1) + &route("/b", 7002, 1);
        let first = config(&format!(
            "policy = \"lru\"\nreadvertise = \"\"\n{strategies}{routes}"
        ));
        let mut node = started(&first);
        let name = |text: &str| text.parse::<Name>().unwrap();
        assert!(of_root(&node).contains("/multicast/"));
        let (kept, gone) = (face_of(&node, 7001), face_of(&node, 7002));
        assert!(kept.is_some() && gone.is_some());
        let now = node.now();
        // Set by hand while the node runs. The file does not change it later.
        node.forwarder
            .set_policy(now, &"arc".parse().unwrap(), None)
            .unwrap();
        let face = kept.unwrap();
        let of_app = larder_forwarder::Route {
            face,
            origin: 0,
            cost: 0,
            flags: 0,
            expires: None,
        };
        node.forwarder.add_route(&name("/app"), of_app).unwrap();
        assert_eq!(node.forwarder.stats().prefixes_to_readvertise, 0);

        let second = config(&format!(
            "policy = \"lru\"\ncontent_store = \"1MiB\"\ncount_by = 2\nudp_mtu = 1000\nremote_faces = 4\npartial_input = \"1MiB\"\n\
             readvertise = \"nlsr\"\n{}{}{}",
            route("/a", 7001, 1),
            route("/c", 7001, 5),
            route("/d", 7003, 1)
        ));
        node.reload(now, Reload::new(&second, NewListeners::default()).unwrap())
            .unwrap();
        let stats = node.forwarder.stats();
        assert_eq!(
            (stats.content_store_capacity_bytes, stats.rib_routes),
            (1 << 20, 4)
        );
        assert_eq!(stats.prefixes_to_readvertise, 1);
        assert_eq!(
            node.forwarder.policy().to_string(),
            "arc",
            "the file's policy is as it was"
        );
        assert_eq!((face_of(&node, 7001), face_of(&node, 7002)), (kept, None));
        assert!(face_of(&node, 7003).is_some());
        let mtu = |port| {
            node.forwarder
                .face(face_of(&node, port).unwrap())
                .unwrap()
                .mtu
        };
        assert_eq!(
            (mtu(7001), mtu(7003)),
            (Some(1000), Some(1000)),
            "of a face that was there, and of a new one"
        );
        assert_eq!(
            (node.bounds.remote_faces, node.bounds.partial_input),
            (4, 1 << 20)
        );
        assert_eq!(
            node.places.partial.budget.most.load(Ordering::Relaxed),
            1 << 20
        );
        assert_eq!(node.forwarder.strategy_of(&name("/s")), None);
        assert!(of_root(&node).contains("/best-route/"), "as without a file");

        let third = config("policy = \"sieve\"\ncontent_store = \"1MiB\"");
        node.reload(now, Reload::new(&third, NewListeners::default()).unwrap())
            .unwrap();
        assert_eq!(node.forwarder.policy().to_string(), "sieve");
        assert_eq!(
            (node.forwarder.stats().rib_routes, face_of(&node, 7001)),
            (0, None)
        );
        let missing = config("[[ndn.authorize]]\ncertificate = \"/no/such/file\"");
        assert!(
            Reload::new(&missing, NewListeners::default())
                .err()
                .unwrap()
                .to_string()
                .contains("/no/such/file")
        );
    }

    /// Failure: a reload reaches only the first of several threads.
    #[test]
    fn every_thread_runs_by_the_file() {
        let first = config("shards = 3\npolicy = \"lru\"\ncontent_store = \"4MiB\"");
        let mut ndn = Ndn::start(&first, None, &mut Inherited::default(), || ()).unwrap();
        let ports = Arc::clone(&ndn.handle.ports);
        let snapshots = || -> Vec<Snapshot> {
            let ask = |port: &Port| {
                let (sender, receiver) = mpsc::channel();
                port.send(Command::Snapshot(sender));
                receiver.recv().unwrap()
            };
            ports.iter().map(ask).collect()
        };
        let capacity = |snapshot: &Snapshot| snapshot.stats.content_store_capacity_bytes;
        assert!(snapshots().iter().all(|shard| shard.policy == "lru"));
        assert_eq!(snapshots().iter().map(capacity).sum::<u64>(), 4 << 20);

        let strategy = "[[ndn.strategy]]\nprefix = \"/s\"\nstrategy = \"multicast\"\n";
        let text = format!(
            "shards = 3\npolicy = \"sieve\"\ncontent_store = \"1MiB\"\n{}{strategy}",
            route("/a", 7001, 1)
        );
        ndn.reload(&config(&text)).unwrap();
        for shard in snapshots() {
            assert_eq!(
                (
                    shard.policy.as_str(),
                    shard.stats.fib_entries,
                    shard.stats.faces
                ),
                ("sieve", 1, 1)
            );
            assert!(capacity(&shard).abs_diff((1 << 20) / 3) <= 1);
        }
        let all = ndn.handle.snapshot().unwrap();
        assert_eq!(
            (capacity(&all), all.stats.fib_entries, all.faces.len()),
            (1 << 20, 1, 1)
        );
        ndn.stop();
    }
}

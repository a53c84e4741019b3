//! Applies the settings of a reload.

use super::EventLoop;
use crate::ndn::error::NdnError;
use crate::ndn::reload::{Reload, udp_is_off};
use crate::ndn::upstream::Upstream;
use larder_units::Time;

impl EventLoop {
    /// Applies the new settings.
    pub(super) fn reload(&mut self, now: Time, reload: Reload) -> Result<(), NdnError> {
        let Reload { settings, rules, verification, upstreams } = reload;
        self.check_upstreams(&upstreams)?;
        let before = &self.applied;
        let policy_changed = before.policy.to_string() != settings.policy.to_string();
        if policy_changed || before.content_store != settings.content_store {
            // A change of the capacity alone keeps what the policy has learned.
            match policy_changed {
                true => self
                    .forwarder
                    .set_policy(now, &settings.policy, Some(settings.content_store))
                    .map_err(NdnError::Policy)?,
                false => self.forwarder.set_capacity(now, settings.content_store),
            }
        }
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
        self.applied = settings;
        self.set_upstreams(now, upstreams);
        Ok(())
    }

    /// Checks that these upstreams can be connected to.
    pub(super) fn check_upstreams(&self, upstreams: &[Upstream]) -> Result<(), NdnError> {
        let problem = upstreams.iter().find_map(|upstream| udp_is_off(&upstream.target));
        problem.filter(|_| self.listeners.udp.is_none()).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::NdnConfig;
    use crate::inherited::Inherited;
    use crate::ndn::shard_channel::{Port, shard_contexts};
    use crate::ndn::{Command, Ndn, Snapshot};
    use larder_packet::Name;
    use std::sync::mpsc;

    fn config(text: &str) -> NdnConfig {
        let text = format!("[ndn]\nunix = \"\"\ntcp = \"\"\nwebsocket = \"\"\nudp = \"127.0.0.1:0\"\n{text}");
        Config::parse(&text, "t").unwrap_or_else(|error| panic!("{error}")).ndn
    }

    fn route(prefix: &str, port: u16, cost: u64) -> String {
        format!("[[ndn.route]]\nprefix = \"{prefix}\"\nto = \"udp://127.0.0.1:{port}\"\ncost = {cost}\n")
    }

    /// Failure: a setting of the operator is lost, a face in use is closed, or a setting that the
    /// file no longer has stays.
    #[test]
    fn what_the_file_says_now_is_what_runs_and_nothing_else_is_touched() {
        let strategy = |prefix: &str| format!("[[ndn.strategy]]\nprefix = \"{prefix}\"\nstrategy = \"multicast\"\n");
        let strategies = strategy("/") + &strategy("/s");
        let first = config(&format!("policy = \"lru\"\n{strategies}{}{}", route("/a", 7001, 1), route("/b", 7002, 1)));
        let shard_context = shard_contexts(1, 1 << 20).unwrap().1.remove(0);
        let mut node = EventLoop::new(&first, shard_context, None).unwrap();
        node.listen(&first, &mut Inherited::default()).unwrap();
        node.add_routes(&first).unwrap();
        let name = |text: &str| text.parse::<Name>().unwrap();
        let face_of = |node: &EventLoop, port: u16| {
            let uri = format!("udp4://127.0.0.1:{port}");
            node.forwarder.face_stats().into_iter().find(|face| face.config.uri == uri).map(|face| face.id)
        };
        let of_root = |node: &EventLoop| node.forwarder.strategy_of(&Name::root()).unwrap().to_string();
        assert!(of_root(&node).contains("/multicast/"));
        let (kept, gone) = (face_of(&node, 7001), face_of(&node, 7002));
        assert!(kept.is_some() && gone.is_some());
        let now = node.now();
        // Set by hand while the node runs. The file does not change it later.
        node.forwarder.set_policy(now, &"arc".parse().unwrap(), None).unwrap();

        let second = config(&format!(
            "policy = \"lru\"\ncontent_store = \"1MiB\"\ncount_by = 2\n{}{}{}",
            route("/a", 7001, 1),
            route("/c", 7001, 5),
            route("/d", 7003, 1)
        ));
        node.reload(now, Reload::new(&second).unwrap()).unwrap();
        let stats = node.forwarder.stats();
        assert_eq!((stats.content_store_capacity_bytes, stats.rib_routes), (1 << 20, 3));
        assert_eq!(node.forwarder.policy().to_string(), "arc", "the file's policy is as it was");
        assert_eq!((face_of(&node, 7001), face_of(&node, 7002)), (kept, None));
        assert!(face_of(&node, 7003).is_some());
        assert_eq!(node.forwarder.strategy_of(&name("/s")), None);
        assert!(of_root(&node).contains("/best-route/"), "as without a file");

        let third = config("policy = \"sieve\"\ncontent_store = \"1MiB\"");
        node.reload(now, Reload::new(&third).unwrap()).unwrap();
        assert_eq!(node.forwarder.policy().to_string(), "sieve");
        assert_eq!((node.forwarder.stats().rib_routes, face_of(&node, 7001)), (0, None));
        let missing = config("[[ndn.authorize]]\ncertificate = \"/no/such/file\"");
        assert!(Reload::new(&missing).err().unwrap().to_string().contains("/no/such/file"));
    }

    /// Failure: a reload reaches only the first of several threads.
    #[test]
    fn every_thread_runs_by_the_file() {
        let first = config("shards = 3\npolicy = \"lru\"\ncontent_store = \"4MiB\"");
        let ndn = Ndn::start(&first, None, &mut Inherited::default(), || ()).unwrap();
        let snapshots = || -> Vec<Snapshot> {
            let ask = |port: &Port| {
                let (sender, receiver) = mpsc::channel();
                port.send(Command::Snapshot(sender));
                receiver.recv().unwrap()
            };
            ndn.handle.ports.iter().map(ask).collect()
        };
        let capacity = |snapshot: &Snapshot| snapshot.stats.content_store_capacity_bytes;
        assert!(snapshots().iter().all(|shard| shard.policy == "lru"));
        assert_eq!(snapshots().iter().map(capacity).sum::<u64>(), 4 << 20);

        let strategy = "[[ndn.strategy]]\nprefix = \"/s\"\nstrategy = \"multicast\"\n";
        let text =
            format!("shards = 3\npolicy = \"sieve\"\ncontent_store = \"1MiB\"\n{}{strategy}", route("/a", 7001, 1));
        ndn.handle.reload(Reload::new(&config(&text)).unwrap()).unwrap();
        for shard in snapshots() {
            assert_eq!((shard.policy.as_str(), shard.stats.fib_entries, shard.stats.faces), ("sieve", 1, 1));
            assert!(capacity(&shard).abs_diff((1 << 20) / 3) <= 1);
        }
        let all = ndn.handle.snapshot().unwrap();
        assert_eq!((capacity(&all), all.stats.fib_entries, all.faces.len()), (1 << 20, 1, 1));
        ndn.stop();
    }
}

//! A routing daemon on this machine that does not learn which prefixes are served here, or goes on
//! to advertise prefixes that nobody serves.

use super::world::{Packet, Sent, World, faces, name};
use larder_forwarder::limits::{
    READVERTISE_INTERVAL, READVERTISE_RETRY_MOST, READVERTISE_UNANSWERED,
};
use larder_forwarder::{FaceId, Route};
use larder_packet::{ControlParameters, ControlResponse, DataBuilder, DigestSigner, Name};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(1);

fn parameters(prefix: &str) -> ControlParameters {
    ControlParameters {
        name: Some(name(prefix)),
        ..ControlParameters::default()
    }
}

/// A routing daemon as NLSR and `ndnd dv` are to the forwarder.
struct Daemon {
    face: FaceId,
    advertised: BTreeMap<String, u64>,
    /// The status code of its answers; `None` if it does not answer.
    status: Option<u64>,
    commands: usize,
}

impl Daemon {
    /// Connects, and registers its prefix with the origin that routing uses.
    fn start(world: &mut World) -> Daemon {
        let face = world.local();
        let register = ControlParameters {
            origin: Some(128),
            ..parameters("/localhost/nlsr")
        };
        assert_eq!(
            world
                .command(face, "rib", "register", &register)
                .status_code,
            200
        );
        Daemon {
            face,
            advertised: BTreeMap::new(),
            status: Some(200),
            commands: 0,
        }
    }

    /// Carries out the commands among the packets, and answers them.
    fn receive(&mut self, world: &mut World, sent: Vec<Sent>) {
        for packet in sent {
            let Packet::Interest { name, .. } = &packet.packet else {
                panic!("{packet:?}")
            };
            assert_eq!(packet.face, self.face, "{name}");
            assert_eq!(
                name.as_name().component_count(),
                6,
                "a signed Interest of {name}"
            );
            let part = |at: usize| {
                String::from_utf8(name.as_name().component(at).unwrap().value.to_vec()).unwrap()
            };
            assert_eq!([part(0), part(1), part(2)], ["localhost", "nlsr", "rib"]);
            let parameters =
                ControlParameters::decode(name.as_name().component(4).unwrap().value).unwrap();
            self.commands += 1;
            if self.status == Some(200) {
                let prefix = parameters.name.unwrap().to_string();
                match part(3).as_str() {
                    "register" => _ = self.advertised.insert(prefix, parameters.cost.unwrap()),
                    "unregister" => _ = self.advertised.remove(&prefix),
                    verb => panic!("{verb}"),
                }
            }
            if let Some(status) = self.status {
                assert_eq!(
                    world.sent(self.face, answer(name, status)),
                    [],
                    "nobody else asked"
                );
            }
        }
    }

    /// Lets a moment pass, in which the daemon does what it gets.
    fn run(&mut self, world: &mut World, span: Duration) {
        let until = world.now + span;
        loop {
            let next = world.forwarder.next_timeout().filter(|at| *at <= until);
            let step = next.map_or(until, |at| at.max(world.now)).since(world.now);
            let sent = world.pass(step);
            if next.is_none() && sent.is_empty() {
                return;
            }
            self.receive(world, sent);
        }
    }

    fn prefixes(&self) -> Vec<&str> {
        self.advertised.keys().map(String::as_str).collect()
    }
}

fn answer(command: &Name, status_code: u64) -> Vec<u8> {
    let content = ControlResponse {
        status_code,
        status_text: String::new(),
        body: None,
    }
    .encode();
    DataBuilder::new(command.as_name())
        .content(&content)
        .build(&DigestSigner)
        .unwrap()
}

fn readvertising() -> World {
    let mut world = World::new();
    world.forwarder.set_readvertise(true);
    world
}

#[test]
fn a_registered_prefix_is_not_advertised_or_stays_after_its_route() {
    let mut world = readvertising();
    let mut daemon = Daemon::start(&mut world);
    let (one, two) = (world.local(), world.local());
    let client = ControlParameters {
        origin: Some(65),
        cost: Some(7),
        ..parameters("/client")
    };
    let short = ControlParameters {
        expiration: Some(Duration::from_secs(5)),
        ..parameters("/short")
    };
    for parameters in [parameters("/app"), client, short] {
        assert_eq!(
            world
                .command(one, "rib", "register", &parameters)
                .status_code,
            200
        );
    }
    world.command(
        two,
        "rib",
        "register",
        &ControlParameters {
            cost: Some(3),
            ..parameters("/app")
        },
    );
    daemon.run(&mut world, SOON);
    let expected = [("/app", 0), ("/client", 7), ("/short", 0)];
    assert!(
        daemon
            .advertised
            .iter()
            .map(|(name, cost)| (name.as_str(), *cost))
            .eq(expected),
        "{:?}",
        daemon.advertised
    );
    assert_eq!(daemon.commands, 3, "one command for two routes of a prefix");

    daemon.run(&mut world, Duration::from_secs(5));
    assert_eq!(
        daemon.prefixes(),
        ["/app", "/client"],
        "a route that has expired"
    );
    world.command(one, "rib", "unregister", &parameters("/app"));
    daemon.run(&mut world, SOON);
    assert_eq!(
        daemon.advertised["/app"], 3,
        "the other application still serves it"
    );
    world.forwarder.remove_face(two);
    daemon.run(&mut world, SOON);
    assert_eq!(daemon.prefixes(), ["/client"]);
    world.forwarder.remove_face(one);
    daemon.run(&mut world, SOON);
    assert_eq!(daemon.prefixes(), [""; 0]);
}

#[test]
fn routes_that_are_no_applications_are_advertised() {
    let mut world = readvertising();
    let mut daemon = Daemon::start(&mut world);
    let app = world.local();
    for (prefix, origin) in [
        ("/static", 255),
        ("/routed", 128),
        ("/announced", 129),
        ("/auto", 64),
    ] {
        world.command(
            app,
            "rib",
            "register",
            &ControlParameters {
                origin: Some(origin),
                ..parameters(prefix)
            },
        );
    }
    for prefix in ["/localhost/app", "/localhop/app"] {
        world.command(app, "rib", "register", &parameters(prefix));
    }
    world.command(
        app,
        "fib",
        "add-nexthop",
        &ControlParameters {
            cost: Some(1),
            ..parameters("/fib")
        },
    );
    // The daemon's own prefixes: it knows them.
    world.command(
        daemon.face,
        "rib",
        "register",
        &parameters("/net/router/nlsr"),
    );
    daemon.run(&mut world, Duration::from_secs(1));
    assert_eq!(daemon.commands, 0);
}

#[test]
fn a_node_without_the_setting_sends_commands_or_a_reload_leaves_prefixes_behind() {
    let mut world = World::new();
    let mut daemon = Daemon::start(&mut world);
    let app = world.local();
    world.command(app, "rib", "register", &parameters("/app"));
    daemon.run(&mut world, Duration::from_secs(1));
    assert_eq!(daemon.commands, 0);
    world.forwarder.set_readvertise(true);
    daemon.run(&mut world, SOON);
    assert_eq!(daemon.prefixes(), ["/app"]);
    world.forwarder.set_readvertise(false);
    daemon.run(&mut world, SOON);
    assert_eq!(daemon.prefixes(), [""; 0]);
}

#[test]
fn a_daemon_that_starts_later_or_again_knows_no_prefix() {
    let mut world = readvertising();
    let app = world.local();
    let route = Route {
        face: app,
        origin: 0,
        cost: 0,
        flags: 1,
        expires: None,
    };
    for number in 0..3 * READVERTISE_UNANSWERED {
        world
            .forwarder
            .add_route(&name(&format!("/app/{number}")), route.clone())
            .unwrap();
    }
    assert_eq!(
        world.pass(Duration::from_secs(100)),
        [],
        "there is no daemon"
    );
    let mut first = Daemon::start(&mut world);
    first.run(&mut world, SOON);
    assert_eq!(first.advertised.len(), 3 * READVERTISE_UNANSWERED);
    world.forwarder.remove_face(first.face);
    world.forwarder.remove_route(&name("/app/0"), app, 0);
    let mut second = Daemon::start(&mut world);
    second.run(&mut world, SOON);
    assert_eq!(second.advertised.len(), 3 * READVERTISE_UNANSWERED - 1);
    // The new process is there before the connection of the old one has ended.
    let mut third = Daemon::start(&mut world);
    for sent in world.pass(SOON) {
        second.receive(&mut world, vec![sent]);
    }
    world.forwarder.remove_face(second.face);
    third.run(&mut world, SOON);
    assert_eq!(third.advertised.len(), 3 * READVERTISE_UNANSWERED - 1);
}

#[test]
fn a_command_that_is_lost_or_refused_is_never_repeated() {
    let mut world = readvertising();
    let mut daemon = Daemon::start(&mut world);
    let app = world.local();
    for status in [None, Some(503)] {
        daemon.status = status;
        world.command(app, "rib", "register", &parameters("/app"));
        daemon.run(&mut world, READVERTISE_RETRY_MOST * 5);
        assert!(
            (5..20).contains(&std::mem::take(&mut daemon.commands)),
            "{status:?}"
        );
        daemon.status = Some(200);
        daemon.run(&mut world, READVERTISE_RETRY_MOST);
        assert_eq!(daemon.prefixes(), ["/app"], "{status:?}");
        // A withdrawal.
        daemon.status = status;
        world.command(app, "rib", "unregister", &parameters("/app"));
        daemon.run(&mut world, SOON);
        assert_eq!(daemon.prefixes(), ["/app"], "{status:?}");
        daemon.status = Some(200);
        daemon.run(&mut world, READVERTISE_RETRY_MOST);
        assert_eq!(daemon.prefixes(), [""; 0], "{status:?}");
        daemon.commands = 0;
    }
}

#[test]
fn a_daemon_that_has_forgotten_a_prefix_never_learns_it_again() {
    let mut world = readvertising();
    let mut daemon = Daemon::start(&mut world);
    let app = world.local();
    world.command(app, "rib", "register", &parameters("/app"));
    daemon.run(&mut world, SOON);
    daemon.advertised.clear();
    daemon.run(&mut world, READVERTISE_INTERVAL);
    assert_eq!((daemon.prefixes(), daemon.commands), (vec!["/app"], 2));
}

#[test]
fn a_daemon_that_hangs_gets_all_commands_at_once() {
    let mut world = readvertising();
    let mut daemon = Daemon::start(&mut world);
    daemon.status = None;
    let app = world.local();
    for number in 0..3 * READVERTISE_UNANSWERED {
        world.command(
            app,
            "rib",
            "register",
            &parameters(&format!("/app/{number}")),
        );
    }
    let sent = world.pass(SOON);
    assert_eq!(sent.len(), READVERTISE_UNANSWERED);
    daemon.receive(&mut world, sent);
    daemon.status = Some(200);
    daemon.run(&mut world, READVERTISE_RETRY_MOST);
    assert_eq!(daemon.advertised.len(), 3 * READVERTISE_UNANSWERED);
}

#[test]
fn another_application_answers_for_the_daemon_or_a_neighbour_gets_the_commands() {
    let mut world = readvertising();
    let (uplink, relay, stranger) = (world.remote(), world.local(), world.local());
    world.route("/", uplink, 0);
    world.route("/", relay, 0);
    world.command(stranger, "rib", "register", &parameters("/app"));
    assert_eq!(
        world.pass(Duration::from_secs(10)),
        [],
        "a default route does not lead to a daemon"
    );
    let daemon = Daemon::start(&mut world);
    let sent = world.pass(SOON);
    assert_eq!(faces(&sent), [daemon.face]);
    let Packet::Interest { name, .. } = &sent[0].packet else {
        panic!("{sent:?}")
    };
    assert!(world.frame(stranger, answer(name, 200)).is_err());
    assert_eq!(
        faces(&world.pass(Duration::from_secs(2))),
        [daemon.face],
        "the command is repeated"
    );
    // A route through the program that the default route leads to is none of the daemon's.
    world.command(relay, "rib", "register", &parameters("/relayed"));
    assert_eq!(faces(&world.pass(SOON)), [daemon.face]);
}

#[derive(Clone, Debug)]
enum Step {
    Register {
        app: usize,
        prefix: usize,
        client: bool,
        lives: Option<u64>,
    },
    Unregister {
        app: usize,
        prefix: usize,
        client: bool,
    },
    AppEnds(usize),
    DaemonRestarts,
    DaemonHangs(bool),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..3usize, 0..4usize, any::<bool>());
    prop_oneof![
        5 => (place(), prop::option::of(1u64..30)).prop_map(|((app, prefix, client), lives)| {
            Step::Register { app, prefix, client, lives }
        }),
        3 => place().prop_map(|(app, prefix, client)| Step::Unregister { app, prefix, client }),
        1 => (0..3usize).prop_map(Step::AppEnds),
        1 => Just(Step::DaemonRestarts),
        2 => any::<bool>().prop_map(Step::DaemonHangs),
        3 => (0u64..20_000).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Failure: after some history, what the daemon advertises is not what is registered.
    #[test]
    fn the_daemon_advertises_something_else_than_what_is_registered(steps in prop::collection::vec(step(), 1..40)) {
        const PREFIXES: [&str; 4] = ["/a", "/a/b", "/c", "/localhop/x"];
        let mut world = readvertising();
        let mut daemon = Daemon::start(&mut world);
        let mut apps = [world.local(), world.local(), world.local()];
        for step in steps {
            match step {
                Step::Register { app, prefix, client, lives } => {
                    let origin = Some(if client { 65 } else { 0 });
                    let expiration = lives.map(Duration::from_secs);
                    let parameters = ControlParameters { origin, expiration, ..parameters(PREFIXES[prefix]) };
                    world.command(apps[app], "rib", "register", &parameters);
                }
                Step::Unregister { app, prefix, client } => {
                    let origin = Some(if client { 65 } else { 0 });
                    let parameters = ControlParameters { origin, ..parameters(PREFIXES[prefix]) };
                    world.command(apps[app], "rib", "unregister", &parameters);
                }
                Step::AppEnds(app) => {
                    world.forwarder.remove_face(apps[app]);
                    apps[app] = world.local();
                }
                Step::DaemonRestarts => {
                    world.forwarder.remove_face(daemon.face);
                    daemon = Daemon::start(&mut world);
                }
                Step::DaemonHangs(hangs) => daemon.status = (!hangs).then_some(200),
                Step::Pass(millis) => daemon.run(&mut world, Duration::from_millis(millis)),
            }
        }
        daemon.status = Some(200);
        daemon.run(&mut world, READVERTISE_RETRY_MOST * 2);
        let routes = world.forwarder.first_routes(100).into_iter();
        let served = routes.filter(|(name, route)| route.origin != 128 && !name.to_string().starts_with("/localhop"));
        let served: BTreeSet<String> = served.map(|(name, _)| name.to_string()).collect();
        let stats = world.forwarder.stats();
        prop_assert_eq!((stats.prefixes_to_readvertise, stats.readvertised_prefixes), (served.len(), served.len()));
        prop_assert_eq!(daemon.advertised.into_keys().collect::<BTreeSet<_>>(), served);
        let commands = daemon.commands;
        daemon.advertised = BTreeMap::new();
        let mut quiet = Daemon { face: daemon.face, advertised: BTreeMap::new(), status: Some(200), commands };
        quiet.run(&mut world, Duration::from_secs(60));
        prop_assert_eq!(quiet.commands, commands, "the forwarder goes on to send commands");
    }
}

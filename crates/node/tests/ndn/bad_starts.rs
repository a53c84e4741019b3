//! Nodes that cannot start, and what others left behind.

use super::{Stage, config};
use larder_node::Node;

#[test]
fn an_occupied_port_is_one_line_and_leaves_nothing_behind() {
    let stage = Stage::new();
    let socket = stage.directory.path().join("second.sock");
    let other = |key: &str, scheme: &str| {
        let mut config = config(&socket, "");
        let address = Some(stage.address(scheme).parse().unwrap());
        match key {
            "[ndn] tcp" => config.ndn.tcp = address,
            "[ndn] udp" => config.ndn.udp = address,
            "[ndn] websocket" => config.ndn.websocket = address,
            _ => config.admin.listen = stage.node.admin_address(),
        }
        let error = Node::start(&config).err().expect("a refusal").to_string();
        assert!(
            error.starts_with(key) && error.contains("in use"),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
        assert!(!socket.exists(), "{key}: the socket file was left behind");
    };
    other("[ndn] tcp", "tcp");
    other("[ndn] udp", "udp");
    other("[ndn] websocket", "ws");
    other("[admin] listen", "tcp");
}

#[test]
fn the_socket_of_a_running_forwarder_is_not_taken() {
    let stage = Stage::new();
    let error = Node::start(&config(&stage.socket(), ""))
        .err()
        .expect("a refusal")
        .to_string();
    assert!(
        error.starts_with("[ndn] unix") && error.contains("another forwarder"),
        "{error}"
    );
    assert!(stage.unix().is_answered(1), "the first one serves on");
}

#[test]
fn the_socket_of_one_that_was_killed_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("deeper/nfd.sock");
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    // What SIGKILL leaves: a file that nobody listens on.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    let node = Node::start(&config(&socket, "")).unwrap();
    let stage = Stage { node, directory };
    assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok());
    stage.node.stop();
    assert!(!socket.exists(), "a clean stop removes it");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("precious.txt");
    std::fs::write(&path, "precious").unwrap();
    let error = Node::start(&config(&path, ""))
        .err()
        .expect("a refusal")
        .to_string();
    assert!(error.contains("precious.txt"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_route_over_udp_without_udp_names_itself_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nfd.sock");
    let mut config = config(
        &socket,
        "[[ndn.route]]\nprefix = \"/\"\nto = \"udp://127.0.0.1:9\"\n",
    );
    config.ndn.udp = None;
    let error = Node::start(&config).err().expect("a refusal").to_string();
    assert!(
        error.contains("udp://127.0.0.1:9") && error.contains("[[ndn.route]]"),
        "{error}"
    );
    assert!(!socket.exists());
}

#[test]
fn two_nodes_route_to_each_other_whichever_starts_first() {
    let directory = tempfile::tempdir().unwrap();
    let (near, far) = (
        directory.path().join("near.sock"),
        directory.path().join("far.sock"),
    );
    let route = |to: &std::path::Path| {
        format!(
            "[[ndn.route]]\nprefix = \"/\"\nto = \"unix://{}\"\n",
            to.display()
        )
    };
    let start = |socket: &std::path::Path, to: &std::path::Path| {
        Node::start(&config(socket, &route(to))).unwrap()
    };
    // The near one starts while there is nobody to connect to.
    let stage = Stage {
        node: start(&near, &far),
        directory,
    };
    let other = start(&far, &near);
    let patience = std::time::Instant::now();
    while stage.figure("/ndn/rib_routes") == 0 {
        assert!(patience.elapsed() < super::PATIENCE, "never connected");
        std::thread::yield_now();
    }
    // And connects again when the other one was away.
    other.stop();
    while stage.figure("/ndn/rib_routes") > 0 {
        assert!(
            patience.elapsed() < super::PATIENCE,
            "the route to nobody stands"
        );
        std::thread::yield_now();
    }
    let other = start(&far, &near);
    while stage.figure("/ndn/rib_routes") == 0 {
        assert!(patience.elapsed() < super::PATIENCE, "not connected again");
        std::thread::yield_now();
    }
    other.stop();
}

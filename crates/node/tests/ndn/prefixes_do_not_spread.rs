//! A routing daemon on the node's machine that does not learn the prefixes of applications.

use super::{App, Stage, data};
use larder_packet::{
    ControlParameters, ControlResponse, DataBuilder, DigestSigner, Interest, LpPacket,
};
use std::os::unix::net::UnixStream;

/// Connects as NLSR and `ndnd dv` do.
fn daemon(stage: &Stage) -> App<UnixStream> {
    let mut daemon = stage.unix();
    let name = Some("/localhost/nlsr".parse().unwrap());
    daemon.obeyed(
        "rib/register",
        &ControlParameters {
            name,
            origin: Some(128),
            ..Default::default()
        },
    );
    daemon
}

/// Answers the next command: its verb, and its prefix.
fn obey(daemon: &mut App<UnixStream>) -> (String, String) {
    let frame = daemon.receive().expect("a command");
    let packet = LpPacket::decode(&frame).unwrap().fragment.unwrap();
    let interest = Interest::decode(packet).unwrap();
    let part = |at: usize| interest.name.component(at).unwrap().value;
    assert_eq!(
        [part(0), part(1), part(2)],
        [&b"localhost"[..], b"nlsr", b"rib"]
    );
    assert!(
        interest.signature_info().is_some() && interest.check_parameters_digest().is_ok(),
        "it is signed"
    );
    let parameters = ControlParameters::decode(part(4)).unwrap();
    let response = ControlResponse {
        status_code: 200,
        status_text: "OK".to_owned(),
        body: Some(parameters.clone()),
    };
    let content = response.encode();
    daemon.send(
        &DataBuilder::new(interest.name)
            .content(&content)
            .build(&DigestSigner)
            .unwrap(),
    );
    (
        String::from_utf8(part(3).to_vec()).unwrap(),
        parameters.name.unwrap().to_string(),
    )
}

fn pair(verb: &str, prefix: &str) -> (String, String) {
    (verb.to_owned(), prefix.to_owned())
}

#[test]
fn a_routing_daemon_does_not_learn_a_prefix_or_keeps_it() {
    let stage = Stage::with("readvertise = \"nlsr\"\n");
    let mut first = daemon(&stage);
    let mut app = stage.unix();
    app.register("/app/one");
    assert_eq!(obey(&mut first), pair("register", "/app/one"));
    app.register("/app/two");
    assert_eq!(obey(&mut first), pair("register", "/app/two"));
    let two = ControlParameters {
        name: Some("/app/two".parse().unwrap()),
        ..Default::default()
    };
    app.obeyed("rib/unregister", &two);
    assert_eq!(obey(&mut first), pair("unregister", "/app/two"));
    stage.await_figure("/ndn/readvertised_prefixes/accepted", |accepted| {
        accepted == 1
    });
    assert_eq!(stage.figure("/ndn/readvertised_prefixes/wanted"), 1);
    // The daemon restarts.
    drop(first);
    stage.await_figure("/ndn/fib_entries", |entries| entries == 1);
    assert_eq!(
        stage.figure("/ndn/readvertised_prefixes/accepted"),
        0,
        "the next daemon knows nothing"
    );
    let mut second = daemon(&stage);
    assert_eq!(obey(&mut second), pair("register", "/app/one"));
    // The application still works, and ends.
    let mut consumer = stage.unix();
    consumer.send(&super::interest("/app/one/x", 9));
    let frame = app.receive().unwrap();
    let name = Interest::decode(LpPacket::decode(&frame).unwrap().fragment.unwrap())
        .unwrap()
        .name
        .to_name();
    app.send(&data(&name, 10));
    assert!(consumer.receive().is_some());
    drop(app);
    assert_eq!(obey(&mut second), pair("unregister", "/app/one"));
}

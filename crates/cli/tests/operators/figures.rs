//! Detects figures and recordings that leave out what happens, or say it in the wrong place.

use crate::node::{Folder, Node, command, free_port, get, larder, said};
use std::net::TcpListener;
use std::process::Stdio;

/// Failure: requests that rules refuse are in no metric, so an attack is not seen.
#[test]
fn what_rules_refuse_is_in_no_metric() {
    let folder = Folder::new();
    let (http, admin) = (free_port(), free_port());
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
         [[http.rules]]\npath = \"/no\"\ndeny = \"all\"\n\
         [[http.rules]]\npath = \"/few\"\nrate_limit = {{ rate = \"1r/h\" }}\n"
    );
    let file = folder.write("larder.toml", &text);
    let _node = Node::start(&mut command(&["run", &file]));
    for _ in 0..3 {
        get(http, "/no");
        get(http, "/few");
    }
    let metrics = get(admin, "/metrics");
    for line in [
        "larder_http_refused_by_rules_total{reason=\"access\"} 3",
        "larder_http_refused_by_rules_total{reason=\"rate_limit\"} 2",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(get(admin, "/status").contains("\"refused_by_rules\""));
}

/// Failure: a capture of a cache whose origin is down ends without a word about it.
#[test]
fn an_empty_capture_says_nothing() {
    let folder = Folder::new();
    let (http, admin, nobody) = (free_port(), free_port(), free_port());
    let text = format!(
        "[ndn]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n\
         [http]\nlisten = \"127.0.0.1:{http}\"\norigin = \"http://127.0.0.1:{nobody}\"\n"
    );
    let file = folder.write("larder.toml", &text);
    let _node = Node::start(&mut command(&["run", &file]));
    let trace = folder.path("trace.csv");
    let at = format!("127.0.0.1:{admin}");
    let captured = larder(&[
        "ctl",
        "capture",
        "--for",
        "1ms",
        "--admin",
        &at,
        "-o",
        trace.to_str().unwrap(),
    ]);
    assert!(
        said(&captured).contains("does the origin answer"),
        "{}",
        said(&captured)
    );
}

/// Failure: a message follows the data of a trace.
#[test]
fn a_message_stands_in_a_trace() {
    for output in ["-", "/dev/stdout"] {
        let arguments = [
            "trace",
            "generate",
            "web",
            "--requests",
            "3",
            "--to",
            "text",
            "-o",
            output,
        ];
        let made = command(&arguments)
            .stderr(Stdio::inherit())
            .output()
            .unwrap();
        assert!(made.status.success(), "{output}: {}", said(&made));
        let text = String::from_utf8_lossy(&made.stdout).into_owned();
        assert_eq!(text.lines().count(), 3, "{output}: {text}");
    }
}

/// Failure: an IPv6 address of a flag is taken for an array.
#[test]
fn an_address_of_a_flag_is_an_array() {
    if TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let listen = "--set=http.listen=[::1]:0";
    let quiet = ["--set=ndn.enabled=false", "--set=admin.listen="];
    let checked = larder(&["run", "--check", listen, quiet[0], quiet[1]]);
    assert!(checked.status.success(), "{}", said(&checked));
}

//! Web pages that a browser lets connect to the node's WebSocket, and that must not register
//! prefixes.

use super::Stage;

#[test]
fn a_page_of_a_stranger_becomes_a_local_application() {
    let stage = Stage::with("websocket_origins = [\"https://app.example\"]");
    let port = stage.address("ws").rsplit_once(':').unwrap().1.to_owned();
    let foreign = [
        format!("http://evil.example:{port}"),
        "https://evil.example".into(),
        "null".into(),
        "http://app.example".into(),
    ];
    for (count, origin) in foreign.iter().enumerate() {
        let mut page = stage.websocket(&format!("Origin: {origin}\r\n"));
        assert!(page.head.starts_with("HTTP/1.1 403 "), "{origin}: {}", page.head);
        page.send_frame(0x82, &super::interest("/no/route", 1), 19);
        stage.await_figure("/ndn/drops/foreign_origin", |refused| refused == count as u64 + 1);
    }
    let own =
        ["", "Origin: https://app.example\r\n", "Origin: http://localhost:3000\r\n", "Origin: http://127.0.0.1\r\n"];
    for more in own {
        let mut page = stage.websocket(more);
        assert!(page.head.starts_with("HTTP/1.1 101 "), "{more}: {}", page.head);
        assert!(page.is_answered(1), "{more}");
    }
    assert_eq!(stage.figure("/ndn/drops/foreign_origin"), foreign.len() as u64);
}

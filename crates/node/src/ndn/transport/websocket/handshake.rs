//! The opening handshake of a WebSocket (RFC 6455, section 4.2). A web page connects if
//! `config/web_origins.rs` allows its Origin.

use crate::config::WebOrigins;
use std::net::IpAddr;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};

/// The answer to a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// More bytes have to come.
    Incomplete,
    /// The handshake is complete after so many bytes.
    Accepted { length: usize, response: Vec<u8> },
    /// The bytes are no handshake.
    Wrong { response: Vec<u8>, why: String },
    /// The handshake comes from a web page that may not connect.
    Foreign { response: Vec<u8>, origin: String },
}

/// Answers the bytes that have come, on a connection to our address `local`.
pub(super) fn answer(bytes: &[u8], local: IpAddr, origins: &WebOrigins) -> Answer {
    let (length, request) = match Request::try_parse(bytes) {
        Ok(None) => return Answer::Incomplete,
        Ok(Some(parsed)) => parsed,
        Err(error) => return wrong(&error.to_string()),
    };
    let accepted = match create_response(&request) {
        Ok(accepted) => accepted,
        Err(error) => return wrong(&error.to_string()),
    };
    let mut said = request.headers().get_all("origin").iter();
    if let Some(origin) = said.next() {
        let origin = origin.to_str().unwrap_or_default();
        if said.next().is_some() || !origins.allow(origin, local) {
            let text = "This web page may not use the NDN forwarder: see [ndn] websocket_origins of its configuration.\n";
            return Answer::Foreign {
                response: refusal("403 Forbidden", text),
                origin: origin.to_owned(),
            };
        }
    }
    let mut response = Vec::new();
    match write_response(&mut response, &accepted) {
        Ok(()) => Answer::Accepted { length, response },
        Err(error) => wrong(&error.to_string()),
    }
}

fn wrong(why: &str) -> Answer {
    let response = refusal(
        "400 Bad Request",
        "This is the WebSocket of an NDN forwarder.\n",
    );
    Answer::Wrong {
        response,
        why: format!("WebSocket handshake: {why}"),
    }
}

fn refusal(status: &str, text: &str) -> Vec<u8> {
    let length = text.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(more: &str) -> Vec<u8> {
        format!(
            "GET / HTTP/1.1\r\nHost: evil.example:9696\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn a_page_of_a_stranger_connects() {
        let listed = [
            "https://App.example".to_owned(),
            "chrome-extension://abc".to_owned(),
        ];
        let origins = WebOrigins::new(&listed, "Desk.example".to_owned());
        let loopback: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        let outside: IpAddr = "192.0.2.7".parse().unwrap();
        for (origin, from_loopback, from_outside) in [
            ("https://app.example", true, true),
            ("HTTPS://APP.EXAMPLE", true, true),
            ("chrome-extension://abc", true, true),
            ("http://desk.example:8080", true, true),
            ("http://localhost", true, false),
            ("http://localhost:3000", true, false),
            ("http://127.0.0.1:8080", true, false),
            ("http://[::1]:8080", true, false),
            ("http://[::1]", true, false),
            ("http://192.0.2.7", false, true),
            ("http://app.example", false, false),
            ("https://app.example:444", false, false),
            ("https://evil.example", false, false),
            // Resolved to our address by its name server: Host agrees with it.
            ("http://evil.example:9696", false, false),
            ("http://localhost.evil.example", false, false),
            ("http://127.0.0.1.evil.example", false, false),
            ("http://evil.example@localhost", false, false),
            ("file://localhost", false, false),
            ("null", false, false),
            ("", false, false),
        ] {
            for (local, allowed) in [(loopback, from_loopback), (outside, from_outside)] {
                let bytes = request(&format!("Origin: {origin}\r\n"));
                let accepted = matches!(answer(&bytes, local, &origins), Answer::Accepted { .. });
                assert_eq!(accepted, allowed, "{origin} at {local}");
            }
        }
        let null = WebOrigins::new(&["null".to_owned()], String::new());
        assert!(matches!(
            answer(&request("Origin: null\r\n"), loopback, &null),
            Answer::Accepted { .. }
        ));
        let twice = request("Origin: https://app.example\r\nOrigin: https://evil.example\r\n");
        let Answer::Foreign { response, .. } = answer(&twice, loopback, &origins) else {
            panic!("two origins")
        };
        assert!(response.starts_with(b"HTTP/1.1 403 "));
    }

    #[test]
    fn a_program_without_an_origin_is_refused() {
        let request = request("");
        let local = IpAddr::from([127, 0, 0, 1]);
        for end in 0..request.len() {
            assert_eq!(
                answer(&request[..end], local, &WebOrigins::default()),
                Answer::Incomplete
            );
        }
        let Answer::Accepted { length, response } = answer(&request, local, &WebOrigins::default())
        else {
            panic!()
        };
        assert_eq!(length, request.len());
        // The key and its answer are RFC 6455's own, section 1.3.
        let response = String::from_utf8(response).unwrap().to_lowercase();
        assert!(
            response.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="),
            "{response}"
        );
    }
}

//! The rules of the HTTP cache: any table is compiled or refused, and the rules of any request are
//! found and carried out. The input is a host, a target and the cookies, each on its line, and then
//! the table.
#![no_main]

use http::header::COOKIE;
use http::{HeaderMap, Method, StatusCode};
use larder_node::Config;
use larder_proxy::rules::{RequestFields, RuleRequest, Rules};
use larder_proxy::{normal_authority, normal_target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (host, target, cookie, table) = (line(), line(), line(), line());
    let Ok(config) = Config::parse(table, "node.toml") else {
        return;
    };
    let Ok(rules) = Rules::new(config.http.proxy.rules) else {
        return;
    };
    let (Ok(host), Ok(target)) = (normal_authority("http", host), normal_target(target)) else {
        return;
    };
    let headers: HeaderMap = cookie
        .parse()
        .ok()
        .map(|value| (COOKIE, value))
        .into_iter()
        .collect();
    for (method, status) in [
        (Method::GET, StatusCode::OK),
        (Method::POST, StatusCode::BAD_GATEWAY),
    ] {
        let request = RuleRequest {
            scheme: "http",
            host: &host,
            target: (&*target).into(),
            method: &method,
            client: [192, 0, 2, 1].into(),
            fields: RequestFields::Map(&headers),
        };
        rules.explain(&request, &headers, status, &headers);
    }
});

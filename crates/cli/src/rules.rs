//! `larder rules`: what `[[http.rules]]` of a configuration do.

use crate::config_file::NeededConfigFile;
use crate::failure::Failure;
use crate::output::line;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_node::{Config, ConfigSources};
use larder_proxy::NormalUrl;
use larder_proxy::rules::{Explanation, RequestFields, RuleRequest, Rules};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};

/// Show what the rules of a configuration do
#[derive(Args, Debug)]
pub struct RulesArgs {
    #[command(subcommand)]
    command: RulesCommand,
}

#[derive(Subcommand, Debug)]
enum RulesCommand {
    Explain(ExplainArgs),
}

/// Show which rules apply to a request, and what results
#[derive(Args, Debug)]
struct ExplainArgs {
    /// The URL of the request, as the client sends it
    url: String,

    #[command(flatten)]
    file: NeededConfigFile,

    /// The method
    #[arg(long, default_value = "GET")]
    method: Method,

    /// A field of the request, such as "Cookie: a=b"; may be repeated
    #[arg(long, value_name = "NAME: VALUE", value_parser = field)]
    header: Vec<(HeaderName, HeaderValue)>,

    /// The client's address
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    client: IpAddr,

    /// The status of the response
    #[arg(long, default_value = "200")]
    status: StatusCode,

    /// The Content-Type of the response
    #[arg(long)]
    content_type: Option<HeaderValue>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn field(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    let name = name
        .trim()
        .parse()
        .map_err(|_| format!("{name:?} is no name of a field"))?;
    Ok((
        name,
        value
            .trim()
            .parse()
            .map_err(|_| "a field cannot have this value".to_owned())?,
    ))
}

/// Runs a subcommand.
pub fn run(args: RulesArgs) -> Result<(), Failure> {
    let RulesCommand::Explain(args) = args.command;
    let config = ConfigSources::of_process(Some(args.file.path()))
        .load()
        .map_err(|error| Failure::usage(error.to_string()))?;
    let explanation = explain(&args, &config)?;
    let servers = larder_node::origin_servers(
        &config,
        &explanation.origin_host,
        &explanation.origin_target,
    );
    let servers = servers.map_err(|error| Failure::usage(error.to_string()))?;
    if args.json {
        let mut value = json!(explanation);
        value["origin_servers"] = json!(servers);
        line!("{value}");
    } else {
        line!("{}", text(&args, &explanation, &servers));
    }
    Ok(())
}

fn explain(args: &ExplainArgs, config: &Config) -> Result<Explanation, Failure> {
    let url = NormalUrl::new(&args.url)
        .map_err(|reason| Failure::usage(format!("{}: {reason}", args.url)))?;
    let rules = Rules::new(config.http.proxy.rules.clone()).map_err(|errors| {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::usage(texts.join("\n"))
    })?;
    let mut headers: HeaderMap = args.header.iter().cloned().collect();
    headers.remove(HOST);
    let response = args
        .content_type
        .iter()
        .map(|value| (CONTENT_TYPE, value.clone()))
        .collect();
    let request = RuleRequest {
        scheme: url.scheme,
        host: &url.authority,
        target: url.target.as_str().into(),
        method: &args.method,
        client: args.client,
        fields: RequestFields::Map(&headers),
    };
    let explanation = rules.explain(&request, &headers, args.status, &response);
    let redirect = larder_proxy::redirected_to_https(&config.http.proxy, &url)
        .map(|location| format!("308 {location} ([http] redirect_to_https)"));
    Ok(Explanation {
        answer: redirect.or(explanation.answer),
        ..explanation
    })
}

fn text(args: &ExplainArgs, explanation: &Explanation, servers: &[String]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["rule", "if", "sets"]);
    for rule in &explanation.rules {
        let mut conditions = rule.conditions.join("\n");
        if conditions.is_empty() {
            conditions.push_str("always");
        }
        if !rule.applies {
            conditions.push_str("\n(not with this response)");
        }
        table.add_row([rule.number.to_string(), conditions, rule.sets.join("\n")]);
    }
    let mut lines = vec![
        format!("{} {} from {}", args.method, args.url, args.client),
        String::new(),
    ];
    if explanation.rules.is_empty() {
        lines.push("no rule applies".to_owned())
    } else {
        lines.extend(table.lines().map(|line| line.trim_end().to_owned()))
    }
    lines.push(String::new());
    if let Some(answer) = &explanation.answer {
        lines.push(format!("answer    {answer}"));
        return lines.join("\n");
    }
    lines.push(if explanation.pass {
        "cache     bypassed (pass)".to_owned()
    } else {
        format!("cache     {}", explanation.key)
    });
    lines.extend(
        explanation
            .storing
            .iter()
            .map(|line| format!("          {line}")),
    );
    lines.push(format!("origin    {}", servers.join(", ")));
    let (target, host) = (&explanation.origin_target, &explanation.origin_host);
    lines.push(format!("request   {} {target}, host: {host}", args.method));
    lines.extend(
        explanation
            .request_headers
            .iter()
            .map(|field| format!("          {field}")),
    );
    lines.push(format!("response  {}", args.status.as_u16()));
    lines.extend(
        explanation
            .response_headers
            .iter()
            .map(|field| format!("          {field}")),
    );
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        explain: ExplainArgs,
    }

    /// Failure: the explanation is not what the node does, or lacks a part of it.
    #[test]
    fn an_effect_is_not_explained() {
        let file = r#"
            [http]
            origin = "http://127.0.0.1:3000"
            [[http.rules]]
            cookie = "session"
            pass = true
            [[http.rules]]
            path = "/api/*"
            rewrite = "/v2/$1"
            response_headers = { set = { X-Frame-Options = "DENY" } }
            [[http.rules]]
            status = 404
            response_headers = { set = { X-Missing = "$uri" } }
        "#;
        let config = Config::parse(file, "larder.toml").unwrap_or_else(|error| panic!("{error}"));
        let explained = |arguments: &[&str]| {
            let arguments = ["explain", "--config", "x", "http://Example.com:80/api/a?b"]
                .iter()
                .chain(arguments);
            let args = Cli::try_parse_from(arguments)
                .unwrap_or_else(|error| panic!("{error}"))
                .explain;
            let explanation = explain(&args, &config).unwrap_or_else(|error| panic!("{error}"));
            let servers = larder_node::origin_servers(&config, "example.com", "/v2/a").unwrap();
            text(&args, &explanation, &servers)
        };
        let found = explained(&[]);
        for part in [
            "cache     http://example.com/api/a?b",
            "origin    127.0.0.1:3000",
            "request   GET /v2/a, host: example.com",
            "x-frame-options: DENY",
            "(not with this response)",
        ] {
            assert!(found.contains(part), "{part}: {found}");
        }
        let folder = tempfile::tempdir().unwrap();
        let files = format!(
            "[http]\norigin = {:?}\n[ndn]\nenabled = false",
            folder.path()
        );
        let files = Config::parse(&files, "larder.toml").unwrap_or_else(|error| panic!("{error}"));
        let served = larder_node::origin_servers(&files, "example.com", "/a").unwrap();
        assert_eq!(served, [format!("file://{}", folder.path().display())]);
        let found = explained(&["--header", "Cookie: session=1", "--status", "404"]);
        for part in ["bypassed (pass)", "cookie session", "x-missing: /api/a"] {
            assert!(found.contains(part), "{part}: {found}");
        }
        assert!(!found.contains("not with this response"), "{found}");
    }

    /// Failure: the node redirects a request, and the explanation says what the cache does.
    #[test]
    fn a_redirect_to_https_is_not_explained() {
        let file = r#"
            [http]
            redirect_to_https = true
            [http.tls]
            listen = "127.0.0.1:8443"
            certificate = "a.pem"
            key = "a.key"
        "#;
        let config = Config::parse(file, "larder.toml").unwrap_or_else(|error| panic!("{error}"));
        let answer = |url| {
            let arguments = ["explain", "--config", "x", url];
            let args = Cli::try_parse_from(arguments).map(|cli| cli.explain);
            let args = args.unwrap_or_else(|error| panic!("{error}"));
            explain(&args, &config).unwrap().answer
        };
        let redirected = answer("http://a.example/b?c").unwrap();
        assert!(
            redirected.starts_with("308 https://a.example:8443/b?c "),
            "{redirected}"
        );
        assert_eq!(answer("https://a.example/b"), None);
        assert_eq!(
            answer("http://a.example/.well-known/acme-challenge/x"),
            None
        );
    }
}

//! Failure: requests wait for a response that turns out to be another variant.

use super::*;

/// Sends the first exchange of each request that is not forwarded at once.
fn ask(
    stage: &mut Stage,
    request: &Request,
    joined: Option<Joined>,
) -> Result<Box<Exchange>, Box<Follower>> {
    let step = match joined {
        None => stage.cache.on_request(&request.head(), stage.now),
        Some(joined) => stage.cache.on_released(&request.head(), joined, stage.now),
    };
    match step {
        Step::Forward(mut exchange) => {
            exchange.take_headers(request.headers.clone());
            Ok(exchange)
        }
        Step::Follow(follower) => Err(Box::new(follower)),
        step => panic!("{step:?}"),
    }
}

/// Failure: requests that get other variants wait for each other, one after another.
#[test]
fn requests_for_other_variants_wait_for_each_other() {
    let cookies: Vec<Request> = (0..10)
        .map(|number| get("/").with("cookie", &format!("id={number}")))
        .collect();
    for may_be_stored in [true, false] {
        let control = if may_be_stored {
            "public, max-age=60"
        } else {
            "private"
        };
        let fields: Fields<'_> = &[
            ("cache-control", control),
            ("vary", "Cookie"),
            ("content-length", "1"),
        ];
        let mut stage = Stage::new();
        let Ok(leader) = ask(&mut stage, &cookies[0], None) else {
            panic!("nobody else asks")
        };
        let mut followers = Vec::new();
        for request in &cookies[1..] {
            let Err(follower) = ask(&mut stage, request, None) else {
                panic!("what varies is not known")
            };
            followers.push(waiting(&mut stage, *follower, request));
        }
        // It is complete before the others ask again.
        let mut reply = stage.respond(leader, head(200, fields));
        if let Reply::Relay { fill, .. } = &mut reply
            && let Some(mut fill) = fill.take()
        {
            stage.push(&mut fill, b"x");
            assert_eq!(stage.complete(fill), Completion::Stored);
        }
        stage.cache.check_invariants();
        let mut sent = Vec::new();
        for (request, follower) in cookies[1..].iter().zip(followers) {
            let JoinResult::Again(joined) = woken(&mut stage, follower, request) else {
                panic!("it is another's")
            };
            let Ok(exchange) = ask(&mut stage, request, Some(joined)) else {
                panic!("it waits")
            };
            stage.cache.check_invariants();
            sent.push(exchange);
        }
        // Strangers come meanwhile, and one of the same.
        let Ok(stranger) = ask(&mut stage, &get("/").with("cookie", "stranger"), None) else {
            panic!("it waits")
        };
        if may_be_stored {
            let Err(same) = ask(&mut stage, &cookies[1], None) else {
                panic!("it gets the same")
            };
            let same = waiting(&mut stage, *same, &cookies[1]);
            let _fill = start(&mut stage, sent.remove(0), fields);
            assert!(matches!(
                woken(&mut stage, same, &cookies[1]),
                JoinResult::Stream { .. }
            ));
        }
        stage.abandon(stranger);
        for exchange in sent {
            stage.abandon(exchange);
        }
        stage.cache.check_invariants();
        // Nothing of it is stored any more, and it is still known what varies.
        let purge = larder_http::Purge {
            scope: larder_http::Scope::Everything,
            soft: false,
        };
        assert_eq!(stage.cache.purge(&purge, 0, stage.now).next, None);
        stage.wait(300);
        for request in &cookies {
            assert!(ask(&mut stage, request, None).is_ok(), "it waits");
        }
    }
}

/// Failure: a URL that varies by one field for some and by another one for others makes requests
/// wait for strangers.
#[test]
fn two_lists_of_a_url_are_taken_in_turn() {
    let mut stage = Stage::new();
    let anonymous = |coding: &str| get("/").with("accept-encoding", coding);
    stage.ask(
        &anonymous("gzip"),
        200,
        &[PAGE, ("vary", "accept-encoding")],
        "x",
    );
    stage.ask(
        &anonymous("br").with("cookie", "a"),
        200,
        &[PAGE, ("vary", "cookie, accept-encoding")],
        "x",
    );
    stage.ask(
        &anonymous("zstd"),
        200,
        &[PAGE, ("vary", "accept-encoding")],
        "x",
    );
    stage.wait(61);
    for cookie in ["a", "b", "c"] {
        assert!(
            ask(&mut stage, &anonymous("br").with("cookie", cookie), None).is_ok(),
            "{cookie} waits"
        );
    }
    assert!(
        ask(&mut stage, &anonymous("br").with("cookie", "b"), None).is_err(),
        "the same two"
    );
}

/// Failure: a response that is private to one client keeps the requests of others from being
/// collapsed.
#[test]
fn a_private_variant_sends_all_others_to_the_origin() {
    let mut stage = Stage::new();
    stage.ask(&get("/"), 200, &[PAGE, ("vary", "cookie")], "x");
    stage.ask(
        &get("/").with("cookie", "a"),
        200,
        &[("cache-control", "private"), ("vary", "cookie")],
        "x",
    );
    stage.wait(61);
    let _leader = stage.open(&get("/"));
    let _ = follow(&mut stage, &get("/"));
    let _alone = stage.open(&get("/").with("cookie", "a"));
    let _alone = stage.open(&get("/").with("cookie", "a"));
}

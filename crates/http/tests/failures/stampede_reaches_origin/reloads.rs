//! Failure: a reload follows what is no reload, or each reload goes to the origin.

use super::*;

/// Failure: a reload is answered with a response that was requested before it (RFC 9111 §5.2.1.4).
#[test]
fn a_reload_does_not_board_what_flew_before_it() {
    for wish in [("cache-control", "no-cache"), ("pragma", "no-cache")] {
        let mut stage = Stage::new();
        let leader = stage.open(&get("/"));
        assert!(is_forwarded(&mut stage, &get("/").with(wish.0, wish.1)));
        let picky = get("/").with("cache-control", "min-fresh=61");
        let waits = follow(&mut stage, &picky);
        let _fill = start(&mut stage, leader, &[PAGE, ("content-length", "1")]);
        assert!(matches!(
            woken(&mut stage, waits, &picky),
            JoinResult::Again(_)
        ));
        assert!(is_forwarded(&mut stage, &get("/").with(wish.0, wish.1)));
    }
}

/// Failure: reloads wait for a request that does not carry out a reload, or each of them goes to
/// the origin.
#[test]
fn a_reload_follows_only_what_is_as_much_of_a_reload() {
    let plain = get("/");
    let aged = get("/").with("cache-control", "max-age=0");
    let forced = get("/").with("cache-control", "no-cache");
    for (leads, comes, follows) in [
        (&plain, &aged, false),
        (&plain, &forced, false),
        (&aged, &forced, false),
        (&aged, &plain, true),
        (&aged, &aged, true),
        (&forced, &plain, true),
        (&forced, &aged, true),
        (&forced, &forced, true),
    ] {
        let mut stage = Stage::new();
        let leader = stage.open(leads);
        let step = stage.cache.on_request(&comes.head(), stage.now);
        assert_eq!(
            matches!(step, Step::Follow(_)),
            follows,
            "{:?} {:?}",
            leads.headers,
            comes.headers
        );
        if !follows {
            // It has taken the lead: what comes now follows it.
            let waits = follow(&mut stage, comes);
            stage.abandon(leader);
            let _ = waiting(&mut stage, waits, comes);
        }
    }
}

/// Failure: a failed reload denies a page to clients that accept it stale.
#[test]
fn a_request_that_follows_a_failed_reload_asks_for_itself() {
    let mut stage = Stage::new();
    stage.ask(
        &get("/"),
        200,
        &[("cache-control", "max-age=1, stale-if-error=60")],
        "x",
    );
    stage.wait(2);
    let forced = get("/").with("cache-control", "no-cache");
    let leader = stage.open(&forced);
    let (plain, same) = (follow(&mut stage, &get("/")), follow(&mut stage, &forced));
    stage.fail(leader, UpstreamFailure::Unreachable);
    assert!(matches!(
        woken(&mut stage, plain, &get("/")),
        JoinResult::Again(_)
    ));
    let JoinResult::Answer(answer) = woken(&mut stage, same, &forced) else {
        panic!()
    };
    assert_eq!(answer.status, 502);
    let alone = stage.open(&get("/"));
    assert_eq!(stage.fail(alone, UpstreamFailure::Unreachable).status, 200);
}

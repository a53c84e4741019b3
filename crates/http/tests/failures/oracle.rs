//! Failure: the code misreads the RFC. A second implementation, the crate `http-cache-semantics` 3,
//! gets the same questions.
//!
//! Where the two are known to differ, the generator avoids the case, and RFC 9111 supports this
//! crate or leaves the choice:
//! * §4.2.3 apparent_age and response_delay: it takes the age from `Age` alone. Here `Date` is the
//!   time of receipt.
//! * §4.2.1 several values of one directive: it treats them as must-revalidate; here the first
//!   counts.
//! * §4.2.1 `max-age` without a value: it uses Expires; here that is invalid, so stale.
//! * §4.2.2 heuristic lifetimes: it has no upper bound; here a day. `Last-Modified` is at most ten
//!   days back.
//! * §5.2 names of directives in capitals: it does not know them.
//! * §5.2.1.2 max-stale: it refuses at exactly the bound, and obeys it even with s-maxage
//!   (§5.2.2.10: that implies proxy-revalidate). Directives of clients end in 5 here, ages in 0,
//!   and s-maxage comes without max-stale.
//! * §5.2.2.4 no-cache: with max-stale it answers without validation, which is a MUST NOT. The
//!   generator gives no max-stale with it.
//! * §5.2.2.8 proxy-revalidate: it treats such responses as always stale.
//! * §5.2.2.3 must-understand, and statuses outside its list: unknown to it.
//! * §7.3 Set-Cookie: it is stored there and never fresh unless public; here it is not stored.
//! * §3 last paragraph: it calls a response storable that can never be used: no lifetime, no
//!   validator.
//! * A request with `max-age` above the age of a stale response, Pragma in responses, `immutable`:
//!   extensions of its own.

use crate::stage::{Stage, THEN, get, headers};
use http::{Request, Response, StatusCode};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use proptest::prelude::*;
use std::time::{Duration, UNIX_EPOCH};

#[derive(Clone, Debug)]
struct Case {
    status: u16,
    cache_control: Vec<String>,
    age: Option<u64>,
    expires: Option<String>,
    last_modified_days: Option<u64>,
    etag: bool,
    authorized: bool,
    directives: Vec<String>,
    wait: u64,
}

fn date(unix_seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix_seconds))
}

fn tens(below: u64) -> impl Strategy<Value = u64> {
    (0..below).prop_map(|n| n * 10)
}

fn maybe(text: &'static str) -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.15, Just(text.to_owned()))
}

fn directives() -> impl Strategy<Value = Vec<String>> {
    let max_age = prop::option::of(tens(20).prop_map(|n| format!("max-age={n}")));
    let s_maxage = prop::option::weighted(0.3, tens(20).prop_map(|n| format!("s-maxage={n}")));
    let odd = prop::option::weighted(
        0.05,
        prop::sample::select(vec!["max-age=abc", "max-age=-1", "max-age=1.5"]),
    );
    let rest = (
        maybe("public"),
        maybe("private"),
        maybe("no-store"),
        maybe("no-cache"),
        maybe("must-revalidate"),
    );
    (max_age, s_maxage, odd, rest, maybe("extension=1")).prop_map(
        |(max_age, s_maxage, odd, rest, extension)| {
            let max_age = odd.map(str::to_owned).or(max_age);
            [
                max_age, s_maxage, rest.0, rest.1, rest.2, rest.3, rest.4, extension,
            ]
            .into_iter()
            .flatten()
            .collect()
        },
    )
}

fn request_directives() -> impl Strategy<Value = Vec<String>> {
    let five = |name: &'static str| {
        prop::option::weighted(0.2, tens(20).prop_map(move |n| format!("{name}={}", n + 5)))
    };
    (
        five("max-age"),
        five("min-fresh"),
        five("max-stale"),
        maybe("no-cache"),
    )
        .prop_map(|(a, b, c, d)| [a, b, c, d].into_iter().flatten().collect())
}

fn case() -> impl Strategy<Value = Case> {
    let status = prop::sample::select(vec![
        200u16, 200, 200, 203, 204, 300, 301, 302, 307, 308, 404, 410,
    ]);
    let expires = prop::option::weighted(
        0.3,
        prop_oneof![
            4 => tens(20).prop_map(|n| date(THEN + n)),
            1 => Just(date(THEN - 100)),
            1 => Just("0".to_owned()),
        ],
    );
    let response = (
        status,
        directives(),
        prop::option::of(tens(10)),
        expires,
        prop::option::of(0u64..10),
    );
    let request = (
        any::<bool>(),
        prop::bool::weighted(0.2),
        request_directives(),
        tens(25),
    );
    (response, request).prop_map(|(response, (etag, authorized, mut directives, wait))| {
        let (status, cache_control, age, expires, last_modified_days) = response;
        if cache_control
            .iter()
            .any(|directive| directive.starts_with("s-maxage") || directive == "no-cache")
        {
            directives.retain(|directive| !directive.starts_with("max-stale"));
        }
        Case {
            status,
            cache_control,
            age,
            expires,
            last_modified_days,
            etag,
            authorized,
            directives,
            wait,
        }
    })
}

impl Case {
    fn response(&self) -> Vec<(&'static str, String)> {
        let mut fields = vec![("date", date(THEN))];
        if !self.cache_control.is_empty() {
            fields.push(("cache-control", self.cache_control.join(", ")));
        }
        fields.extend(self.age.map(|age| ("age", age.to_string())));
        fields.extend(self.expires.clone().map(|expires| ("expires", expires)));
        fields.extend(
            self.last_modified_days
                .map(|days| ("last-modified", date(THEN - days * 86_400))),
        );
        fields.extend(self.etag.then(|| ("etag", "\"1\"".to_owned())));
        fields
    }

    fn request(&self, first: bool) -> crate::stage::Request {
        let mut request = get("/");
        if self.authorized && first {
            request = request.with("authorization", "Basic dTpw");
        }
        if !first && !self.directives.is_empty() {
            request = request.with("cache-control", &self.directives.join(", "));
        }
        request
    }
}

fn their_request(request: &crate::stage::Request) -> Request<()> {
    let mut theirs = Request::get("http://example.com/").body(()).unwrap();
    *theirs.headers_mut() = request.headers.clone();
    theirs
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn the_same_answers(case in case()) {
        let fields = case.response();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut theirs = Response::new(());
        *theirs.status_mut() = StatusCode::from_u16(case.status).unwrap();
        *theirs.headers_mut() = headers(&fields);
        let received = UNIX_EPOCH + Duration::from_secs(THEN);
        let options = CacheOptions { shared: true, ..CacheOptions::default() };
        let policy = CachePolicy::new_options(&their_request(&case.request(true)), &theirs, received, options);

        let mut stage = Stage::new();
        stage.ask(&case.request(true), case.status, &fields, "");
        let stored = stage.cache.engine().len() == 1;
        let useful = !policy.time_to_live(received).is_zero();
        if policy.is_storable() {
            let has_validator = case.etag || case.last_modified_days.is_some();
            prop_assert!(stored || !(useful || has_validator), "not stored: {:?}", case);
        } else {
            prop_assert!(!stored, "stored: {:?}", case);
        }
        if stored {
            stage.wait(case.wait);
            let later = received + Duration::from_secs(case.wait);
            let request = case.request(false);
            let fresh = matches!(policy.before_request(&their_request(&request), later), BeforeRequest::Fresh(_));
            let seen = stage.ask(&request, 503, &[], "");
            prop_assert_eq!(seen.is_hit(), fresh, "{:?}", case);
            if fresh {
                let age = policy.age(later).as_secs().to_string();
                prop_assert_eq!(seen.header("age"), age, "{:?}", case);
            }
        }
    }
}

//! The age of a stored response, and the time for which it may be used (RFC 9111 §4.2).

use crate::codec::{Reader, Writer};
use crate::limits;
use crate::now::Now;
use crate::rfc::directives::{RequestDirectives, ResponseDirectives};
use crate::rfc::{date, fields};
use http::header::{DATE, EXPIRES, LAST_MODIFIED};
use http::{HeaderMap, StatusCode};
use larder_units::Time;
use std::time::Duration;

/// A duration of up to 584 years in nanoseconds: half the size of a [`Duration`], and every stored
/// response has two.
#[derive(Clone, Copy, Debug)]
struct Span(u64);

impl Span {
    fn of(duration: Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    fn get(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// The statements of a response about its reuse, besides its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reuse {
    /// no-cache: never reused without validation (§5.2.2.4).
    always_validate: bool,
    /// must-revalidate, proxy-revalidate or s-maxage: never reused stale because the client allows
    /// it (§4.2.4, §5.2.2.10).
    never_stale: bool,
    /// RFC 5861 §3: the seconds after its lifetime for which it may be served while it is validated
    /// in the background.
    while_revalidating_seconds: u64,
    /// RFC 5861 §4: the seconds after its lifetime for which it may be served if the origin fails;
    /// `None` if the response does not state them.
    if_error_seconds: Option<u64>,
    /// True if it does not change while it is fresh (RFC 8246).
    immutable: bool,
}

/// A [`Reuse`] in a third of its size, because every stored response has one: seconds of up to 34
/// years in 30 bits each, and four flags.
#[derive(Clone, Copy, Debug)]
struct PackedReuse(u64);

impl PackedReuse {
    const SECONDS: u64 = (1 << 30) - 1;

    fn new(reuse: Reuse) -> PackedReuse {
        let flags = [
            reuse.always_validate,
            reuse.never_stale,
            reuse.immutable,
            reuse.if_error_seconds.is_some(),
        ];
        let flags: u64 = (60..)
            .zip(flags)
            .map(|(bit, flag)| u64::from(flag) << bit)
            .sum();
        let while_revalidating = reuse.while_revalidating_seconds.min(Self::SECONDS);
        let if_error = reuse.if_error_seconds.unwrap_or(0).min(Self::SECONDS);
        PackedReuse(flags | if_error << 30 | while_revalidating)
    }

    fn get(self) -> Reuse {
        let flag = |bit: u32| self.0 >> bit & 1 != 0;
        Reuse {
            always_validate: flag(60),
            never_stale: flag(61),
            while_revalidating_seconds: self.0 & Self::SECONDS,
            if_error_seconds: flag(63).then_some(self.0 >> 30 & Self::SECONDS),
            immutable: flag(62),
        }
    }
}

/// The freshness of one stored response. All its durations are measured on the monotonic clock from
/// the moment of receipt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    /// freshness_lifetime.
    lifetime: Span,
    /// corrected_initial_age: the age when it was received.
    initial_age: Span,
    /// request_time.
    requested: Time,
    /// response_time.
    received: Time,
    reuse: PackedReuse,
}

impl Freshness {
    /// Returns the freshness of a response that was received at `now` to a request sent at `asked`.
    /// `headers` have a valid `Date`.
    pub(crate) fn of(
        status: StatusCode,
        headers: &HeaderMap,
        says: &ResponseDirectives,
        asked: Time,
        now: Now,
    ) -> Freshness {
        // §4.2.3: corrected_initial_age = max(apparent_age, age_value + response_delay).
        let date = date::field(headers, &DATE).unwrap_or(now.unix_seconds);
        // The apparent age is for caches in between that do not send `Age`. Without a cache, it is
        // an error of the origin's clock, and the response has just been made.
        let apparent_age = if says.is_direct {
            Duration::ZERO
        } else {
            Duration::from_secs(
                now.unix_seconds
                    .saturating_sub(date)
                    .min(limits::LIFETIME_SECONDS),
            )
        };
        let corrected_age =
            Duration::from_secs(fields::age(headers)).saturating_add(now.time.since(asked));
        let initial_age = apparent_age.max(corrected_age);
        let lifetime = match (says.left, says.ttl) {
            (None, None) => lifetime(status, headers, says, date),
            (None, Some(0)) => Duration::ZERO,
            // Counted from the receipt.
            (None, Some(seconds)) => initial_age.saturating_add(Duration::from_secs(seconds)),
            (Some(left), _) => {
                let seconds = Duration::from_secs(left.unsigned_abs());
                if left < 0 {
                    initial_age.saturating_sub(seconds)
                } else {
                    initial_age.saturating_add(seconds)
                }
            }
        };
        let obeys = says.ttl.is_none();
        let revalidates = obeys && (says.must_revalidate || says.proxy_revalidate);
        // §5.2.2.10: s-maxage implies proxy-revalidate. The origin's directives for stale responses
        // beside it address the same caches, and are more specific (RFC 5861); they would have no
        // effect otherwise.
        let shared_only = obeys && says.s_maxage.is_some() && !says.allows_stale;
        let stale = |seconds: Option<u64>| if revalidates { Some(0) } else { seconds };
        let reuse = Reuse {
            always_validate: obeys && says.no_cache,
            never_stale: revalidates || shared_only,
            while_revalidating_seconds: stale(says.stale_while_revalidate).unwrap_or(0),
            if_error_seconds: stale(says.stale_if_error).or(shared_only.then_some(0)),
            immutable: says.immutable,
        };
        Freshness {
            lifetime: Span::of(lifetime),
            initial_age: Span::of(initial_age),
            requested: asked,
            received: now.time,
            reuse: PackedReuse::new(reuse),
        }
    }

    /// Returns the time after its receipt for which it answers requests without validation.
    pub(crate) fn usable(&self) -> Duration {
        if self.reuse.get().always_validate {
            return Duration::ZERO;
        }
        let stale = self.reuse.get().while_revalidating_seconds;
        self.lifetime
            .get()
            .saturating_sub(self.initial_age.get())
            .saturating_add(Duration::from_secs(stale))
    }

    /// Returns true if the response was requested before `time`.
    pub(crate) fn is_requested_before(&self, time: Time) -> bool {
        self.requested < time
    }

    /// Returns true if the response was requested after `time`.
    pub(crate) fn is_requested_after(&self, time: Time) -> bool {
        self.requested > time
    }

    /// Returns true if the response was received after `time`.
    pub(crate) fn is_received_after(&self, time: Time) -> bool {
        self.received > time
    }

    /// Returns current_age (§4.2.3).
    pub(crate) fn age(&self, now: Time) -> Duration {
        self.initial_age
            .get()
            .saturating_add(now.since(self.received))
    }

    /// Returns the remaining whole seconds; negative if it is stale.
    pub(crate) fn ttl_seconds(&self, now: Time) -> i64 {
        let whole = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        whole(self.lifetime.get()) - whole(self.age(now))
    }

    /// Returns response_is_fresh: freshness_lifetime > current_age (§4.2).
    pub(crate) fn is_fresh(&self, now: Time) -> bool {
        self.lifetime.get() > self.age(now)
    }

    /// Returns true if the origin allows its reuse now without validation. The client's directives
    /// are not considered.
    pub(crate) fn is_reusable(&self, now: Time) -> bool {
        !self.reuse.get().always_validate && self.is_fresh(now)
    }

    /// Returns true if it may answer a client with these directives without validation (§4,
    /// §5.2.1).
    pub(crate) fn satisfies(&self, directives: &RequestDirectives, now: Time) -> bool {
        if self.reuse.get().always_validate
            || directives.no_cache
            || self.is_requested_before(directives.trusted_since)
        {
            return false;
        }
        let age = self.age(now);
        // RFC 8246 §2: a reload is useless if the response cannot have changed.
        let reload = directives
            .max_age
            .is_some_and(|seconds| age > Duration::from_secs(seconds));
        if reload && !(self.reuse.get().immutable && self.lifetime.get() > age) {
            return false;
        }
        // §5.2.1.3: at least min-fresh must be left; this overrules max-stale.
        let needed = |seconds| age.saturating_add(Duration::from_secs(seconds));
        if directives
            .min_fresh
            .is_some_and(|seconds| self.lifetime.get() < needed(seconds))
        {
            return false;
        }
        if self.lifetime.get() > age {
            return true;
        }
        // §5.2.1.2: stale by no more than max-stale.
        let staleness = age.saturating_sub(self.lifetime.get());
        !self.reuse.get().never_stale
            && directives
                .max_stale
                .is_some_and(|seconds| staleness <= Duration::from_secs(seconds))
    }

    /// Returns true if it has been stale only for a short time (RFC 5861 §3), and the client has no
    /// directives of its own.
    pub(crate) fn may_be_stale_while_revalidating(
        &self,
        directives: &RequestDirectives,
        now: Time,
    ) -> bool {
        // Includes no-store: the response of the background validation is stored, and would be an
        // answer to that request (RFC 9111 §5.2.1.5).
        !directives.no_store
            && !directives.says_about_age()
            && !self.is_requested_before(directives.trusted_since)
            && !self.reuse.get().always_validate
            && self.staleness(now)
                < Duration::from_secs(self.reuse.get().while_revalidating_seconds)
    }

    /// Returns true if it may be served after a failure of the origin: for the time that the
    /// response states (RFC 5861 §4), otherwise, if the origin cannot be reached, for
    /// [`limits::STALE_WHILE_DISCONNECTED`] (RFC 9111 §4.2.4).
    pub(crate) fn may_be_stale_on_failure(&self, disconnected: bool, now: Time) -> bool {
        let default = if disconnected {
            limits::STALE_WHILE_DISCONNECTED
        } else {
            Duration::ZERO
        };
        !self.reuse.get().always_validate
            && self.staleness(now)
                < self
                    .reuse
                    .get()
                    .if_error_seconds
                    .map_or(default, Duration::from_secs)
    }

    /// Returns the freshness of the same response, confirmed by its origin at `now`.
    pub(crate) fn confirmed(&self, now: Time) -> Freshness {
        Freshness {
            lifetime: Span(self.lifetime.0.saturating_sub(self.initial_age.0)),
            initial_age: Span(0),
            requested: now,
            received: now,
            reuse: self.reuse,
        }
    }

    /// Makes it stale now (a soft purge). It can still be validated, and served if the origin
    /// fails.
    pub(crate) fn expire(&mut self, now: Time) {
        self.lifetime = Span::of(self.lifetime.get().min(self.age(now)));
        self.reuse = PackedReuse::new(Reuse {
            immutable: false,
            ..self.reuse.get()
        });
    }

    /// Encodes it for another process, with the wall-clock time of the receipt.
    pub(crate) fn encode(&self, now: Now, record: &mut Writer) {
        let nanos = |seconds: u64| Duration::from_secs(seconds).as_nanos() as u64;
        let reuse = self.reuse.get();
        record.u64(self.lifetime.0);
        record.u64(self.initial_age.0);
        record.u64(
            now.unix_seconds
                .saturating_sub(now.time.since(self.received).as_secs()),
        );
        record.u64(nanos(reuse.while_revalidating_seconds));
        record.u64(reuse.if_error_seconds.map_or(u64::MAX, nanos));
        // The last flag: the stale times are the effective ones.
        let flags = [
            reuse.always_validate,
            reuse.never_stale,
            reuse.immutable,
            true,
        ];
        record.byte(
            flags
                .iter()
                .enumerate()
                .map(|(bit, flag)| u8::from(*flag) << bit)
                .sum(),
        );
    }

    /// Decodes the output of [`Freshness::encode`]. The wall clock determines the age since then;
    /// if it has gone back, the response is stale.
    pub(crate) fn decode(record: &mut Reader<'_>, now: Now) -> Option<Freshness> {
        let mut nanos = || record.u64();
        let (lifetime, initial_age, received, while_revalidating, if_error) =
            (nanos()?, nanos()?, nanos()?, nanos()?, nanos()?);
        let flags = record.byte()?;
        let since = now.unix_seconds.checked_sub(received);
        let span = Duration::from_nanos;
        let mut reuse = Reuse {
            always_validate: flags & 1 != 0,
            never_stale: flags & 2 != 0,
            while_revalidating_seconds: span(while_revalidating).as_secs(),
            if_error_seconds: (if_error != u64::MAX).then(|| span(if_error).as_secs()),
            immutable: flags & 4 != 0,
        };
        if reuse.never_stale && flags & 8 == 0 {
            // The record is of an earlier version.
            (reuse.while_revalidating_seconds, reuse.if_error_seconds) = (0, Some(0));
        }
        let mut freshness = Freshness {
            lifetime: Span(lifetime),
            initial_age: Span::of(
                span(initial_age).saturating_add(Duration::from_secs(since.unwrap_or(0))),
            ),
            // The time is unknown, and counts as before every request of this process.
            requested: Time::ZERO,
            received: now.time,
            reuse: PackedReuse::new(reuse),
        };
        if since.is_none() {
            freshness.expire(now.time);
        }
        Some(freshness)
    }

    /// Skips the output of [`Freshness::encode`].
    pub(crate) fn skip(record: &mut Reader<'_>) -> Option<()> {
        Freshness::decode(
            record,
            Now {
                time: Time::ZERO,
                unix_seconds: 0,
            },
        )
        .map(drop)
    }

    /// Returns the time since it became stale; zero if it is fresh.
    fn staleness(&self, now: Time) -> Duration {
        self.age(now).saturating_sub(self.lifetime.get())
    }

    pub(crate) fn forbids_stale(&self) -> bool {
        self.reuse.get().never_stale
    }

    pub(crate) fn has_lifetime(&self) -> bool {
        !self.reuse.get().always_validate && !self.lifetime.get().is_zero()
    }
}

/// Returns s-maxage, otherwise max-age, otherwise Expires less Date, otherwise the heuristic
/// (§4.2.1).
fn lifetime(
    status: StatusCode,
    headers: &HeaderMap,
    says: &ResponseDirectives,
    date: u64,
) -> Duration {
    if let Some(seconds) = says.s_maxage.or(says.max_age) {
        return Duration::from_secs(seconds);
    }
    if !says.targeted && headers.contains_key(EXPIRES) {
        // §5.3: an invalid date, especially 0, MUST count as past.
        let expires = date::field(headers, &EXPIRES).unwrap_or(0);
        return Duration::from_secs(expires.saturating_sub(date).min(limits::LIFETIME_SECONDS));
    }
    // §4.2.2: only if the status or `public` allows it. 10 % of the time since the last change.
    if !(is_heuristically_cacheable(status) || says.public) {
        return Duration::ZERO;
    }
    let modified = date::field(headers, &LAST_MODIFIED).unwrap_or(date);
    (Duration::from_secs(date.saturating_sub(modified)) / 10).min(limits::HEURISTIC_LIFETIME)
}

/// Returns true for the statuses that RFC 9110 §15.1 calls heuristically cacheable, except 206
/// (partial responses are not stored).
pub(crate) fn is_heuristically_cacheable(status: StatusCode) -> bool {
    matches!(
        status.as_u16(),
        200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501
    )
}

/// Returns true if anything other than the heuristic determines the lifetime (§3, last list).
pub(crate) fn is_explicit(headers: &HeaderMap, says: &ResponseDirectives) -> bool {
    says.ttl.is_some()
        || says.s_maxage.is_some()
        || says.max_age.is_some()
        || !says.targeted && headers.contains_key(EXPIRES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const RECEIVED: Now = Now {
        time: Time::from_secs(1000),
        unix_seconds: 784_111_777,
    };
    const DATE_THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn freshness(status: u16, fields: &[(&'static str, &'static str)]) -> Freshness {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        fields::ensure_date(&mut headers, RECEIVED);
        let says = ResponseDirectives::of(&headers);
        Freshness::of(
            StatusCode::from_u16(status).unwrap(),
            &headers,
            &says,
            RECEIVED.time,
            RECEIVED,
        )
    }

    /// Failure: the statements of a response about its reuse change when they are packed.
    #[test]
    fn reuse_is_another_after_packing() {
        let most = PackedReuse::SECONDS;
        for bits in 0..32 {
            for (seconds, kept) in [
                (0, 0),
                (5, 5),
                (most, most),
                (most + 1, most),
                (u64::MAX, most),
            ] {
                let flag = |bit: u32| bits >> bit & 1 != 0;
                let reuse = |first: u64, second: u64| Reuse {
                    always_validate: flag(0),
                    never_stale: flag(1),
                    while_revalidating_seconds: if flag(4) { first } else { 7 },
                    if_error_seconds: flag(2).then_some(second),
                    immutable: flag(3),
                };
                assert_eq!(
                    PackedReuse::new(reuse(seconds, seconds)).get(),
                    reuse(kept, kept),
                    "{bits} {seconds}"
                );
            }
        }
    }

    #[test]
    fn the_order_of_lifetimes() {
        let expires = ("expires", "Sun, 06 Nov 1994 08:50:37 GMT");
        for (fields, seconds) in [
            (
                &[("cache-control", "s-maxage=5, max-age=9"), expires][..],
                5,
            ),
            (&[("cache-control", "max-age=9"), expires], 9),
            (&[expires], 60),
            (&[("expires", "0")], 0),
            (&[("expires", "Sun, 06 Nov 1994 08:48:37 GMT")], 0),
            (&[("last-modified", "Sun, 06 Nov 1994 08:47:57 GMT")], 10),
            (
                &[("last-modified", "Wed, 06 Nov 1974 08:47:57 GMT")],
                24 * 3600,
            ),
            (&[("last-modified", "Sun, 06 Nov 1994 08:49:57 GMT")], 0),
            (&[("last-modified", "yesterday")], 0),
            (&[], 0),
        ] {
            assert_eq!(
                freshness(200, fields).ttl_seconds(RECEIVED.time),
                seconds,
                "{fields:?}"
            );
        }
        let modified = ("last-modified", "Sun, 06 Nov 1994 08:47:57 GMT");
        assert_eq!(freshness(302, &[modified]).ttl_seconds(RECEIVED.time), 0);
        assert_eq!(
            freshness(302, &[modified, ("cache-control", "public")]).ttl_seconds(RECEIVED.time),
            10
        );
    }

    #[test]
    fn age_is_the_larger_of_what_dates_and_caches_say() {
        let max_age = ("cache-control", "max-age=100");
        let of = |fields: &[(&'static str, &'static str)]| {
            freshness(200, fields).age(RECEIVED.time).as_secs()
        };
        assert_eq!(of(&[max_age, ("age", "30")]), 30);
        assert_eq!(
            of(&[max_age, ("date", "Sun, 06 Nov 1994 08:49:27 GMT")]),
            10
        );
        assert_eq!(
            of(&[
                max_age,
                ("date", "Sun, 06 Nov 1994 08:49:27 GMT"),
                ("age", "3")
            ]),
            10
        );
        assert_eq!(
            of(&[max_age, ("date", "Sun, 06 Nov 1994 08:59:27 GMT")]),
            0,
            "a date in the future"
        );
        // The time of the response's transfer counts.
        let mut headers = HeaderMap::new();
        headers.insert("date", HeaderValue::from_static(DATE_THEN));
        headers.insert("age", HeaderValue::from_static("5"));
        let asked = Time::from_secs(998);
        let slow = Freshness::of(
            StatusCode::OK,
            &headers,
            &ResponseDirectives::default(),
            asked,
            RECEIVED,
        );
        assert_eq!(slow.age(Time::from_secs(1010)).as_secs(), 17);
    }

    #[test]
    fn fresh_until_the_lifetime_is_over_and_not_a_nanosecond_longer() {
        let found = freshness(200, &[("cache-control", "max-age=2")]);
        let end = RECEIVED.time + Duration::from_secs(2);
        assert!(found.is_fresh(Time::from_nanos(end.nanos() - 1)));
        assert!(!found.is_fresh(end));
    }

    /// Failure: a response comes back from the second tier with other permissions.
    #[test]
    fn every_permission_comes_back() {
        let immutable = ("cache-control", "immutable, max-age=10");
        for (fields, validated, stale, kept_at_reload) in [
            (&[("cache-control", "max-age=10")][..], false, true, false),
            (
                &[("cache-control", "max-age=10, no-cache")],
                true,
                false,
                false,
            ),
            (
                &[("cache-control", "max-age=10, must-revalidate")],
                false,
                false,
                false,
            ),
            (&[immutable], false, true, true),
            (
                &[immutable, ("cache-control", "no-cache")],
                true,
                false,
                false,
            ),
            (
                &[immutable, ("cache-control", "must-revalidate")],
                false,
                false,
                true,
            ),
            (
                &[("cache-control", "max-age=10, no-cache, must-revalidate")],
                true,
                false,
                false,
            ),
        ] {
            let mut record = Writer::after(Vec::new());
            freshness(200, fields).encode(RECEIVED, &mut record);
            let record = record.into_bytes();
            let back = Freshness::decode(&mut Reader::new(&record), RECEIVED).expect("a record");
            let reload = RequestDirectives {
                max_age: Some(0),
                ..RequestDirectives::default()
            };
            let lenient = RequestDirectives {
                max_stale: Some(60),
                ..RequestDirectives::default()
            };
            let at = |seconds| RECEIVED.time + Duration::from_secs(seconds);
            for found in [freshness(200, fields), back] {
                assert_eq!(found.is_reusable(at(1)), !validated, "{fields:?}");
                assert_eq!(found.satisfies(&lenient, at(20)), stale, "{fields:?}");
                assert_eq!(
                    found.satisfies(&reload, at(1)),
                    kept_at_reload,
                    "{fields:?}"
                );
            }
        }
    }

    /// RFC 8246: only while it is fresh.
    #[test]
    fn a_reload_takes_an_immutable_response_whose_lifetime_is_over() {
        let found = freshness(200, &[("cache-control", "immutable, max-age=10")]);
        let reload = RequestDirectives {
            max_age: Some(0),
            max_stale: Some(60),
            ..RequestDirectives::default()
        };
        let end = RECEIVED.time + Duration::from_secs(10);
        assert!(found.satisfies(&reload, Time::from_nanos(end.nanos() - 1)));
        assert!(!found.satisfies(&reload, end));
    }

    #[test]
    fn wishes_of_clients() {
        let lenient = freshness(200, &[("cache-control", "max-age=10")]);
        let strict = freshness(200, &[("cache-control", "max-age=10, must-revalidate")]);
        let shared = freshness(200, &[("cache-control", "s-maxage=10")]);
        let guarded = freshness(200, &[("cache-control", "max-age=10, no-cache")]);
        let none = RequestDirectives::default();
        let at = |seconds| RECEIVED.time + Duration::from_secs(seconds);
        assert!(lenient.satisfies(&none, at(9)) && !lenient.satisfies(&none, at(10)));
        assert!(!guarded.satisfies(&none, at(0)));
        let stale = RequestDirectives {
            max_stale: Some(5),
            ..none
        };
        assert!(lenient.satisfies(&stale, at(15)) && !lenient.satisfies(&stale, at(16)));
        assert!(!strict.satisfies(&stale, at(11)) && !shared.satisfies(&stale, at(11)));
        assert!(!guarded.satisfies(&stale, at(1)));
        let young = RequestDirectives {
            max_age: Some(3),
            ..none
        };
        assert!(lenient.satisfies(&young, at(3)) && !lenient.satisfies(&young, at(4)));
        let lasting = RequestDirectives {
            min_fresh: Some(4),
            ..none
        };
        assert!(lenient.satisfies(&lasting, at(6)) && !lenient.satisfies(&lasting, at(7)));
        let both = RequestDirectives {
            max_stale: Some(100),
            ..lasting
        };
        assert!(!lenient.satisfies(&both, at(7)));
        let any = RequestDirectives {
            min_fresh: Some(0),
            ..none
        };
        assert!(
            !lenient.satisfies(&any, at(10)),
            "fresh is more than none left"
        );
        assert!(!lenient.satisfies(
            &RequestDirectives {
                no_cache: true,
                ..none
            },
            at(0)
        ));
    }
}

//! Tests of the pool: by example, and by seed in virtual time with a model of the origins.

use super::balance::Load;
use super::*;
use larder_units::Streams;
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);

fn pool_of(config: PoolConfig, members: impl IntoIterator<Item = MemberConfig>) -> Pool<usize> {
    let mut pool = Pool::new(config, Time::ZERO);
    for (number, member) in members.into_iter().enumerate() {
        assert!(pool.add(number, member, None, Time::ZERO));
    }
    pool
}

fn member(number: usize) -> MemberConfig {
    let hash = key(&[format!("10.0.0.{number}:80").as_bytes()]);
    MemberConfig {
        hash,
        weight: 1,
        is_backup: false,
        max_conns: 0,
    }
}

fn equal(count: usize) -> Pool<usize> {
    pool_of(PoolConfig::default(), (0..count).map(member))
}

/// Sends a request that may be repeated.
fn sent(pool: &mut Pool<usize>, key: u64, now: Time) -> Ticket {
    match pool.next(key, &mut Tried::default(), true, now) {
        Choice::Send(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// A request whose response is not needed.
fn first(pool: &mut Pool<usize>, key: u64, now: Time) -> usize {
    let ticket = sent(pool, key, now);
    pool.on_verdict(ticket, Verdict::Nothing, now);
    pool.on_end(ticket);
    ticket.at
}

fn end(pool: &mut Pool<usize>, ticket: Ticket, verdict: Verdict, now: Time) {
    pool.on_verdict(ticket, verdict, now);
    pool.on_end(ticket);
}

/// Opens the breaker of a member.
fn break_down(pool: &mut Pool<usize>, at: usize, now: Time) {
    let id = pool.members[at].as_ref().unwrap().id;
    for _ in 0..limits::FAILURES_OUT {
        pool.on_verdict(
            Ticket {
                at,
                id,
                probe: None,
                sent: now,
            },
            Verdict::Failed,
            now,
        );
    }
}

/// Returns a key of this member.
fn key_of(pool: &mut Pool<usize>, at: usize, now: Time) -> u64 {
    (0..).find(|key| first(pool, *key, now) == at).unwrap()
}

/// Failure: one server fails, and the caches of all others lose their keys; or one of them gets
/// all of its requests.
#[test]
fn only_the_keys_of_the_server_that_goes_move_and_they_spread() {
    let mut pool = equal(10);
    let now = Time::from_secs(1);
    let of = |n: usize| key(&[&(n as u64).to_be_bytes()]);
    let before: Vec<usize> = (0..20_000).map(|n| first(&mut pool, of(n), now)).collect();
    break_down(&mut pool, 3, now);
    let mut got = [0; 10];
    for (number, before) in before.iter().enumerate() {
        let after = first(&mut pool, of(number), now);
        assert!(*before == 3 && after != 3 || after == *before);
        got[after] += 1;
    }
    let even = 20_000 / 9;
    assert!(
        got[3] == 0
            && got
                .iter()
                .enumerate()
                .all(|(at, n)| at == 3 || (even * 9 / 10..even * 11 / 10).contains(n)),
        "{got:?}"
    );
}

/// Failure: a heavier server gets the same share, or a change of a weight moves the keys of others.
#[test]
fn a_weight_is_a_share_of_the_keys_and_only_its_keys_move() {
    let weighted = |weight: u32| {
        let heavy = MemberConfig {
            weight,
            ..member(0)
        };
        pool_of(PoolConfig::default(), [heavy, member(1), member(2)])
    };
    let now = Time::from_secs(1);
    let (mut equal, mut heavy) = (weighted(1), weighted(3));
    let mut share = 0;
    for n in 0..20_000u64 {
        let hash = key(&[&n.to_be_bytes()]);
        let (before, after) = (first(&mut equal, hash, now), first(&mut heavy, hash, now));
        assert!(
            after == before || after == 0,
            "key {n} moved from {before} to {after}"
        );
        share += u32::from(after == 0);
    }
    assert!((11_500..12_500).contains(&share), "3 of 5 parts: {share}");
}

/// Failure: a dead server gets every request of its keys after each pause, or none ever again; or
/// requests that fail together count as many pauses.
#[test]
fn one_request_tries_a_server_that_is_out_and_the_pauses_double() {
    let mut pool = equal(2);
    let mut now = Time::from_secs(100);
    let its_key = key_of(&mut pool, 0, now);
    for _ in 0..3 {
        break_down(&mut pool, 0, now);
    }
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        now += Duration::from_secs(pause) - Duration::from_millis(1);
        assert_eq!(
            first(&mut pool, its_key, now),
            1,
            "before {pause} s are over"
        );
        now += Duration::from_millis(1);
        let probe = sent(&mut pool, its_key, now);
        assert_eq!(probe.at, 0, "after {pause} s");
        assert_eq!(first(&mut pool, its_key, now), 1, "a second one meanwhile");
        end(&mut pool, probe, Verdict::Failed, now);
    }
    now += limits::OUT_LONGEST;
    let probe = sent(&mut pool, its_key, now);
    assert_eq!(
        pool.on_verdict(probe, Verdict::Answered, now),
        Some(Change::Closed)
    );
    pool.on_end(probe);
    let failing = sent(&mut pool, its_key, now);
    end(&mut pool, failing, Verdict::Failed, now);
    assert_eq!(
        first(&mut pool, its_key, now),
        0,
        "one failure alone means nothing"
    );
}

/// Failure: a request that hangs keeps a server out that has recovered; or a POST that cannot be
/// sent again tries a dead server although another one is healthy.
#[test]
fn a_probe_that_hangs_ends_and_a_request_that_may_not_be_repeated_is_no_probe() {
    let mut pool = equal(2);
    let mut now = Time::from_secs(100);
    let its_key = key_of(&mut pool, 0, now);
    break_down(&mut pool, 0, now);
    now += SECOND;
    let hangs = sent(&mut pool, its_key, now);
    assert_eq!(hangs.at, 0);
    now += limits::PROBE + Duration::from_millis(1999);
    assert_eq!(first(&mut pool, its_key, now), 1, "a pause of 2 s");
    now += Duration::from_millis(1);
    let Choice::Send(post) = pool.next(its_key, &mut Tried::default(), false, now) else {
        panic!()
    };
    assert_eq!(post.at, 1);
    end(&mut pool, post, Verdict::Answered, now);
    let probe = sent(&mut pool, its_key, now);
    assert_eq!(probe.at, 0);
    end(&mut pool, hangs, Verdict::Failed, now);
    assert_eq!(
        first(&mut pool, its_key, now),
        1,
        "the new probe is not over"
    );
    end(&mut pool, probe, Verdict::Nothing, now);
    assert_eq!(
        sent(&mut pool, its_key, now).at,
        0,
        "a client that leaves proves nothing"
    );
}

/// Failure: requests hang at an origin that is dead, all try it at once, or it is never tried.
#[test]
fn with_no_server_left_requests_end_at_once_and_single_ones_try() {
    let mut pool = equal(1);
    let mut now = Time::from_secs(1);
    break_down(&mut pool, 0, now);
    let ask = |pool: &mut Pool<usize>, now| pool.next(7, &mut Tried::default(), false, now);
    assert_eq!(ask(&mut pool, now), Choice::Unavailable(SECOND));
    now += SECOND;
    let Choice::Send(probe) = ask(&mut pool, now) else {
        panic!()
    };
    assert_eq!(ask(&mut pool, now), Choice::Unavailable(limits::PROBE));
    end(&mut pool, probe, Verdict::Answered, now);
    assert!(matches!(ask(&mut pool, now), Choice::Send(_)));
    assert_eq!(pool.refusals(), (0, 2));
}

/// Failure: a wrong path of checks ends the service; or backups idle while others are out.
#[test]
fn backups_serve_when_no_other_can_and_failed_checks_alone_end_nothing() {
    let backup = MemberConfig {
        is_backup: true,
        ..member(2)
    };
    let mut pool = pool_of(PoolConfig::default(), [member(0), member(1), backup]);
    let now = Time::from_secs(1);
    assert!((0..100).all(|key| first(&mut pool, key, now) < 2));
    for at in 0..2 {
        assert_eq!(
            pool.on_check(|item| *item == at, false, now),
            None,
            "one may be chance"
        );
        assert_eq!(
            pool.on_check(|item| *item == at, false, now),
            Some(Change::Opened)
        );
    }
    assert!((0..100).all(|key| first(&mut pool, key, now) == 2));
    for _ in 0..2 {
        _ = pool.on_check(|item| *item == 2, false, now);
    }
    let all: Vec<usize> = (0..100).map(|key| first(&mut pool, key, now)).collect();
    assert!((0..3).all(|at| all.contains(&at)), "{all:?}");
    for _ in 0..2 {
        _ = pool.on_check(|item| *item == 1, true, now);
    }
    assert!((0..100).all(|key| first(&mut pool, key, now) == 1));
}

#[test]
fn probes_take_out_and_bring_back_at_the_second_in_a_row() {
    let mut pool = equal(1);
    let now = Time::from_secs(1);
    let said = [
        true, false, true, false, false, false, true, false, true, true, true,
    ];
    let changes: Vec<bool> = said
        .into_iter()
        .map(|well| pool.on_check(|_| true, well, now).is_some())
        .collect();
    let places: Vec<usize> = (0..changes.len()).filter(|at| changes[*at]).collect();
    assert_eq!(places, [4, 9]);
    assert!(pool.snapshot(now)[0].is_usable);
}

/// Failure: a server that has just started gets all of its requests at once.
#[test]
fn after_a_recovery_the_share_grows() {
    let config = PoolConfig {
        slow_start: 10 * SECOND,
        ..PoolConfig::default()
    };
    let mut pool = pool_of(config, [member(0), member(1)]);
    let mut now = Time::from_secs(100);
    break_down(&mut pool, 0, now);
    now += SECOND;
    let its_key = key_of(&mut equal(2), 0, now);
    let probe = sent(&mut pool, its_key, now);
    end(&mut pool, probe, Verdict::Answered, now);
    let mut shares = Vec::new();
    for _ in 0..6 {
        let of = |n: u64| key(&[&n.to_be_bytes()]);
        shares.push(
            (0..2000)
                .filter(|n| first(&mut pool, of(*n), now) == 0)
                .count(),
        );
        now += 2 * SECOND;
    }
    assert!(
        shares[0] < 300 && shares.is_sorted() && shares[5] > 900,
        "{shares:?}"
    );
}

/// Failure: a popular URL buries its server, or a little load moves URLs away from their servers.
#[test]
fn one_key_loads_its_server_only_up_to_a_bound() {
    let mut pool = equal(4);
    let now = Time::from_secs(1);
    let tickets: Vec<Ticket> = (0..400).map(|_| sent(&mut pool, 7, now)).collect();
    let at = |at: usize| tickets.iter().filter(|ticket| ticket.at == at).count();
    assert!(tickets[..8].iter().all(|ticket| ticket.at == tickets[0].at));
    assert_eq!((0..4).map(at).max(), Some(125), "1.25 times 100");
    let mut least = pool_of(
        PoolConfig {
            balance: Balance::LeastOutstanding,
            ..PoolConfig::default()
        },
        {
            [
                MemberConfig {
                    weight: 2,
                    ..member(0)
                },
                member(1),
            ]
        },
    );
    let tickets: Vec<Ticket> = (0..300).map(|_| sent(&mut least, 7, now)).collect();
    let count = tickets.iter().filter(|ticket| ticket.at == 0).count();
    assert!((199..=201).contains(&count), "{count}");
}

/// Failure: a reload forgets that a server is dead, or a request counts for another server that
/// has taken the place of its own.
#[test]
fn a_member_keeps_its_health_and_its_place_is_used_again() {
    let mut pool = equal(2);
    let now = Time::from_secs(1);
    let its_key = key_of(&mut pool, 0, now);
    let old = sent(&mut pool, its_key, now);
    break_down(&mut pool, 0, now);
    let past = pool.past(|item| *item == 0).unwrap();
    let mut next = Pool::new(PoolConfig::default(), now);
    next.add(0, member(0), Some(&past), now);
    assert_eq!(
        next.next(1, &mut Tried::default(), true, now),
        Choice::Unavailable(SECOND)
    );
    pool.retain(|item| *item != 0);
    pool.add(9, member(9), None, now);
    end(&mut pool, old, Verdict::Failed, now);
    assert_eq!(
        (
            pool.members.len(),
            pool.members[0].as_ref().unwrap().outstanding
        ),
        (2, 0)
    );
    assert_eq!(
        pool.members[0].as_ref().unwrap().figures,
        Figures::default()
    );
}

/// Failure: who asks often for one page that hangs or crashes takes the whole server away, although
/// it answers everything else.
#[test]
fn one_bad_page_takes_a_server_away() {
    let mut pool = equal(1);
    let (begun, between, late) = (Time::from_secs(1), Time::from_secs(2), Time::from_secs(60));
    let bad: Vec<Ticket> = (0..100).map(|_| sent(&mut pool, 1, begun)).collect();
    let good = sent(&mut pool, 2, between);
    end(&mut pool, good, Verdict::Answered, between);
    for ticket in bad {
        end(&mut pool, ticket, Verdict::Failed, late);
    }
    assert!(
        matches!(
            pool.next(1, &mut Tried::default(), true, late),
            Choice::Send(_)
        ),
        "it has answered since"
    );
    let last: Vec<Ticket> = (0..3).map(|_| sent(&mut pool, 1, late)).collect();
    for ticket in last {
        end(&mut pool, ticket, Verdict::Failed, late);
    }
    assert_eq!(
        pool.next(1, &mut Tried::default(), true, late),
        Choice::Unavailable(SECOND),
        "it has not"
    );
}

/// Failure: a page at which the program crashes takes the last server away, or keeps it away; or a
/// server that breaks every connection stays beside a healthy one.
#[test]
fn what_may_be_the_fault_of_requests_takes_the_last_server_away() {
    let (mut pool, now) = (equal(2), Time::from_secs(1));
    let is_closed =
        |pool: &Pool<usize>, at: usize| pool.members[at].as_ref().unwrap().breaker.is_closed();
    let its_key = key_of(&mut pool, 0, now);
    for _ in 0..limits::FAILURES_OUT {
        let broken = sent(&mut pool, its_key, now);
        assert_eq!(broken.at, 0);
        end(&mut pool, broken, Verdict::Broken, now);
    }
    assert!(!is_closed(&pool, 0), "the other one is healthy");
    let its_key = key_of(&mut pool, 1, now);
    for _ in 0..10 {
        let broken = sent(&mut pool, its_key, now);
        end(&mut pool, broken, Verdict::Broken, now);
    }
    assert!(is_closed(&pool, 1), "it is the last one");
    assert_eq!(pool.members[1].as_ref().unwrap().figures.failures, 10);
    break_down(&mut pool, 1, now);
    let later = now + SECOND;
    let probe = sent(&mut pool, its_key, later);
    assert_eq!(
        pool.on_verdict(probe, Verdict::Broken, later),
        Some(Change::Closed),
        "it is there again"
    );
}

/// Failure: a backup that is off, or has failed already, counts as the healthy one, and both go out
/// at one page.
#[test]
fn a_page_that_crashes_takes_a_server_away_beside_a_dead_one() {
    let (mut pool, now) = (equal(2), Time::from_secs(1));
    let its_key = key_of(&mut pool, 0, now);
    for _ in 0..10 {
        let mut tried = Tried::default();
        while let Choice::Send(ticket) = pool.next(its_key, &mut tried, true, now) {
            let verdict = if ticket.at == 0 {
                Verdict::Broken
            } else {
                Verdict::Failed
            };
            end(&mut pool, ticket, verdict, now);
        }
    }
    assert_eq!(
        first(&mut pool, its_key, now),
        0,
        "it answers everything else"
    );
}

impl Pool<usize> {
    /// What holds at every time.
    fn check_invariants(&mut self, now: Time) {
        for member in self.members.iter_mut().flatten() {
            member.breaker.settle(now);
            let MemberConfig { max_conns, .. } = member.config;
            assert!(
                max_conns == 0 || member.outstanding <= max_conns,
                "max_conns"
            );
            let figures = &member.figures;
            assert!(figures.failures <= figures.requests, "{figures:?}");
            assert!(figures.requests >= u64::from(member.outstanding));
            assert!(
                member.breaker.is_closed() || figures.failures >= u64::from(self.config.max_fails)
            );
        }
    }

    fn candidates_at(
        &mut self,
        now: Time,
        is_fit: impl Fn(&Member<usize>) -> bool,
    ) -> Vec<Candidate> {
        let one = |(at, member): (usize, &mut Option<Member<usize>>)| {
            let member = member.as_mut().filter(|member| is_fit(member))?;
            let weight = f64::from(member.config.weight) * member.breaker.share(now);
            Some(Candidate {
                at,
                hash: member.config.hash,
                weight,
                outstanding: member.outstanding,
            })
        };
        self.members
            .iter_mut()
            .enumerate()
            .filter_map(one)
            .collect()
    }
}

/// An origin in virtual time: servers fail and recover, requests take a while, clients leave.
struct World {
    pool: Pool<usize>,
    now: Time,
    draw: larder_units::Stream,
    is_dead: Vec<bool>,
    /// Requests by their ends.
    ends: BTreeMap<(Time, u64), (Ticket, Verdict)>,
    /// Probes in progress by member, with their start and number.
    probes: BTreeMap<usize, (Time, u32)>,
    sent: u64,
    requests: u64,
    retries: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut draw = Streams::new(seed).stream("pool");
        let mut below = |most: u64| draw.bits() % most;
        let config = PoolConfig {
            balance: if below(2) == 0 {
                Balance::Hash
            } else {
                Balance::LeastOutstanding
            },
            max_fails: 1 + below(4) as u32,
            fail_timeout: SECOND * (1 + below(30) as u32),
            slow_start: SECOND * below(10) as u32,
            retry_percent: [0, 10, 20, 100][below(4) as usize],
        };
        let members: Vec<MemberConfig> = (0..1 + below(8) as usize)
            .map(|number| MemberConfig {
                weight: 1 + below(4) as u32,
                is_backup: number > 0 && below(4) == 0,
                max_conns: if below(3) == 0 {
                    1 + below(20) as u32
                } else {
                    0
                },
                ..member(number)
            })
            .collect();
        let is_dead = vec![false; members.len()];
        World {
            pool: pool_of(config, members),
            now: Time::ZERO,
            draw,
            is_dead,
            ends: BTreeMap::new(),
            probes: BTreeMap::new(),
            sent: 0,
            requests: 0,
            retries: 0,
        }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.draw.bits() % most
    }

    /// Ends the requests that are due.
    fn advance(&mut self, span: Duration) {
        self.now += span;
        while let Some((at, (ticket, verdict))) =
            self.ends.first_key_value().map(|(at, end)| (*at, *end))
        {
            if at.0 > self.now {
                break;
            }
            self.ends.remove(&at);
            self.pool.on_verdict(ticket, verdict, at.0);
            self.pool.on_end(ticket);
            self.forget_probes(Some(ticket));
            self.pool.check_invariants(at.0);
        }
        self.forget_probes(None);
    }

    /// Forgets the probe of this request, those that have taken too long, and those of members that
    /// other requests or checks have brought back.
    fn forget_probes(&mut self, ended: Option<Ticket>) {
        let (members, now) = (&self.pool.members, self.now);
        let is_closed = |at: usize| members[at].as_ref().unwrap().breaker.is_closed();
        let is_ended =
            |at, number| ended.is_some_and(|one| (one.at, one.probe) == (at, Some(number)));
        self.probes.retain(|at, (since, number)| {
            *since + limits::PROBE > now && !is_closed(*at) && !is_ended(*at, *number)
        });
    }

    /// A client's request, with its retry.
    fn request(&mut self) {
        self.forget_probes(None);
        let (key, is_repeatable) = (self.below(50), self.below(4) > 0);
        let mut tried = Tried::default();
        loop {
            self.pool.check_invariants(self.now);
            let now = self.now;
            let is_healthy = |member: &Member<usize>| member.breaker.is_healthy();
            let has_room = |member: &Member<usize>| {
                member.config.max_conns == 0 || member.outstanding < member.config.max_conns
            };
            let mask = tried.0;
            let healthy = self
                .pool
                .candidates_at(now, |member| is_healthy(member) && has_room(member));
            let healthy: Vec<_> = healthy
                .into_iter()
                .filter(|one| mask & 1 << one.at == 0)
                .collect();
            let is_any_healthy = self.pool.members.iter().flatten().any(is_healthy);
            let is_any_closed = self
                .pool
                .members
                .iter()
                .flatten()
                .any(|member| member.breaker.is_closed());
            let choice = self.pool.next(key, &mut tried, is_repeatable, now);
            let ticket = match choice {
                Choice::Send(ticket) => ticket,
                Choice::Exhausted => break assert!(mask != 0),
                Choice::Wait => break assert!(mask == 0 && is_any_closed && healthy.is_empty()),
                Choice::Unavailable(after) => {
                    break assert!(
                        mask == 0 && !is_any_healthy && after <= limits::PROBE.max(30 * SECOND)
                    );
                }
            };
            assert_eq!(mask & 1 << ticket.at, 0, "the same member twice");
            self.check_choice(ticket, &healthy, is_any_healthy, is_repeatable);
            if mask == 0 {
                self.requests += 1
            } else {
                self.retries += 1
            }
            let verdict = match (self.is_dead[ticket.at], self.below(50)) {
                (_, 0) => Verdict::Nothing,
                (_, 1) => Verdict::Broken,
                (true, _) | (_, 2) => Verdict::Failed,
                _ => Verdict::Answered,
            };
            let slow = if self.below(40) == 0 { 20_000 } else { 400 };
            let time = if verdict == Verdict::Failed && slow < 1000 {
                0
            } else {
                1 + self.below(slow)
            };
            self.sent += 1;
            if time > 0 || verdict != Verdict::Failed {
                self.ends.insert(
                    (now + Duration::from_millis(time), self.sent),
                    (ticket, verdict),
                );
                break;
            }
            end(&mut self.pool, ticket, verdict, now);
            self.forget_probes(Some(ticket));
            if !is_repeatable || tried.count() > limits::RETRIES {
                break;
            }
        }
        let Pool { config, .. } = self.pool;
        let share = self.requests as f64 * f64::from(config.retry_percent) / 100.0;
        let floor = limits::RETRIES_SAVED as f64
            + limits::RETRIES_PER_SECOND as f64 * self.now.as_secs_f64();
        let most = if config.retry_percent == 0 {
            0.0
        } else {
            share + floor
        };
        assert!(
            self.retries as f64 <= most,
            "{} retries of {} requests",
            self.retries,
            self.requests
        );
    }

    fn check_choice(
        &mut self,
        ticket: Ticket,
        healthy: &[Candidate],
        is_any_healthy: bool,
        is_repeatable: bool,
    ) {
        let member = self.pool.members[ticket.at].as_ref().unwrap();
        let (is_backup, weight) = (member.config.is_backup, member.config.weight);
        if let Some(number) = ticket.probe {
            assert!(
                is_repeatable || !is_any_healthy,
                "a request that cannot be repeated tries an open member"
            );
            assert_eq!(
                self.probes.insert(ticket.at, (self.now, number)),
                None,
                "two probes at once"
            );
            return;
        }
        assert!(member.breaker.is_closed(), "traffic to an open member");
        let is_primary =
            |one: &Candidate| !self.pool.members[one.at].as_ref().unwrap().config.is_backup;
        assert!(
            !is_backup || !healthy.iter().any(is_primary),
            "a backup before others"
        );
        let class: Vec<_> = healthy
            .iter()
            .filter(|one| is_primary(one) != is_backup)
            .copied()
            .collect();
        // Members that are due for a probe have no requests but old ones, and add to the weights.
        let outstanding = member.outstanding;
        if self.pool.config.balance == Balance::Hash && class.iter().any(|one| one.at == ticket.at)
        {
            let most = Load::of(&class).most(f64::from(weight));
            let due: u32 = self
                .pool
                .members
                .iter()
                .flatten()
                .filter(|one| !one.breaker.is_closed())
                .map(|one| one.outstanding)
                .sum();
            assert!(
                outstanding <= most + due * 2,
                "{outstanding} requests at one of {class:?}"
            );
        }
    }
}

/// Failure: a fault of the breaker, the budget, the bounds or the order, in some sequence of events
/// that nobody has thought of. By seed.
#[test]
fn whatever_happens_the_rules_hold_and_everything_recovers() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            let span = Duration::from_millis(world.below(300));
            world.advance(span);
            match world.below(20) {
                0 => {
                    let at = world.below(world.is_dead.len() as u64) as usize;
                    world.is_dead[at] = !world.is_dead[at];
                }
                1 => {
                    let (at, now) = (world.below(world.is_dead.len() as u64) as usize, world.now);
                    let well = !world.is_dead[at];
                    world.pool.on_check(|item| *item == at, well, now);
                }
                _ => (0..1 + world.below(5)).for_each(|_| world.request()),
            }
        }
        // Everything recovers.
        world.is_dead.fill(false);
        for _ in 0..400 {
            world.advance(SECOND);
            for at in 0..world.is_dead.len() {
                _ = world.pool.on_check(|item| *item == at, true, world.now);
            }
            for _ in 0..5 {
                world.request();
            }
        }
        world.advance(60 * SECOND);
        let all = world.pool.snapshot(world.now);
        let primary = |one: &&Snapshot<usize>| !one.config.is_backup;
        assert!(
            all.iter()
                .filter(primary)
                .all(|one| one.is_usable && one.outstanding == 0),
            "seed {seed}: {all:?}"
        );
    }
    assert_eq!(
        equal(0).next(1, &mut Tried::default(), true, Time::ZERO),
        Choice::Unavailable(limits::OUT_FIRST)
    );
}

//! Request collapsing (RFC 9111 §4: a cache may use one response for several requests that came
//! while it was fetched). One request for a key goes to the origin; the others wait for its
//! response and read the body while it arrives.
//!
//! ```text
//!  Asking ── a response that may be stored and reused ──► Streaming: followers read the shared body
//!    └────── anything else ─────────────────────────────► Finished: ask again, or the same error
//! ```
//!
//! Requests that get other variants (RFC 9111 §4.1) do not wait for each other: a request follows
//! only one with the same values of the fields by which the URL's responses vary. They are those of
//! the newest stored response and of the last responses (`vary_memory.rs`). While they are unknown,
//! all requests for the URL follow one. Its response makes them known: the followers that get
//! another variant ask the cache again, at once, and the first of each variant goes to the origin.
//!
//! A response that cannot be shared is remembered by key and variant for a while
//! ([`HIT_FOR_MISS_DURATION`](crate::limits::HIT_FOR_MISS_DURATION); "hit for miss"): requests for
//! the key do not wait for each other, and each response may change this.
//! A 502, 503 or 504, and an origin that does not answer, answer all followers: a hundred more
//! requests would not help. Followers get the cache's own text, because an error page may be for
//! one client.
//!
//! A reload (`no-cache`, `max-age=0`) follows only a request that is a reload of at least the same
//! degree, so that caches on the path to the origin get it, and whose response has not begun, so
//! that the response is newer than the reload (RFC 9111 §5.2.1.4). If another request is in flight,
//! a reload replaces it, and later requests follow the reload. So many simultaneous reloads cause
//! one request to the origin, and a second one if a plain one was in flight.
//!
//! Several caches with our name may be in a row, and each may wait for the next. To prevent a cycle
//! of waits (of two caches that are each other's origin, for example), a request follows one that
//! is still asking only if it has passed no more of these caches than that one. The number grows
//! along a chain of waits, so no chain ends where it began. A request that has passed more asks by
//! itself, and later ones follow it.

pub(crate) mod follower;
pub(crate) mod in_flight;
pub(crate) mod table;
pub(crate) mod vary_memory;

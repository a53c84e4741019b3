//! The policy engine: decides which objects each of Larder's caches stores.
//!
//! A [`Spec`] composes admission and eviction policies, and an [`Engine`] runs them. The engine
//! knows ids, sizes and slots. It is not a cache: it holds no keys and no values, reads no clock
//! and draws no entropy. The Content Store, the HTTP cache and the trace replayer each keep their
//! own index over it.
//!
//! Read [`Engine`] first, then [`Spec`]. [`registry`] lists the policies. A program adds its own
//! with [`Registry::register`], or passes policy objects to [`Engine::with`]; see
//! `examples/custom_policy.rs`. A policy implements [`Admit`] or [`Evict`].
//!
//! ```text
//!   owner's index          Engine
//!   key ──► Slot ──hit───► admission stages: on_request ──► eviction: on_hit
//!   key ──► ?    ──miss──► admission stages: on_request
//!           ⋯ fetch ⋯
//!                ──admit─► filter? and adaptsize? … ──► bool
//!                ──insert► returns victims and the object's Slot
//! ```
//!
//! ```
//! use larder_policy::{Engine, Spec};
//! use larder_units::{ByteSize, Streams, Time};
//!
//! let spec: Spec = "lru".parse().unwrap();
//! let mut engine = Engine::new(&spec, ByteSize::from_bytes(100), &Streams::new(1)).unwrap();
//! let mut victims = Vec::new();
//! let now = Time::ZERO;
//!
//! engine.miss(7, now);                        // a request for object 7, which is not stored
//! assert!(engine.admit(7, 60, now));          // it arrived, 60 bytes: store it?
//! let seven = engine.insert(7, 60, now, &mut victims).unwrap();
//! engine.hit(seven, 7, now);
//!
//! engine.insert(8, 60, now, &mut victims).unwrap();
//! assert_eq!(victims, [seven]);               // there is no room for both
//! assert_eq!(engine.used(), ByteSize::from_bytes(60));
//! ```
#![deny(unsafe_code)]

/// The model by which AdaptSize tunes itself, for predictions.
pub mod adaptsize_model {
    pub use crate::admit::adaptsize::bins::{Bin, Shape};
    pub use crate::admit::adaptsize::foresight::{Foresight, Observed};
    pub use crate::admit::adaptsize::model::{Form, Model};
}
mod admit;
mod bloom;
mod engine;
mod entry;
mod evict;
mod future;
mod hash;
mod index;
mod job;
pub mod limits;
mod list;
pub mod observe;
mod parameters;
mod path;
mod prefetch;
mod registry;
mod request;
mod scale;
mod sketch;
mod spec;
mod traits;

pub use engine::Engine;
pub use entry::{Build, BuildContext, Kind, PolicyEntry};
pub use future::{Future, FutureBuilder, FutureTooLong};
pub use index::{AnyIds, Ids, KeyedHashes, SlotIndex};
pub use job::{Job, JobDone};
pub use parameters::{Arguments, Parameter, Preset, Values};
pub use path::Path;
pub use prefetch::{grow, prefetch, take_advice};
pub use registry::{Registry, RegistryError, registry};
pub use request::{Request, Slot};
pub use scale::Scale;
pub use spec::{Spec, SpecError};
pub use traits::{Admit, Cache, Evict, Gauge, Policy, Victim, Work};

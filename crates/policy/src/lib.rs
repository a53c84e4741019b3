//! The policy engine: what is worth keeping, for every cache of Larder.
//!
//! What it is: admission and eviction policies composed by a [`Spec`] and driven by an [`Engine`]
//! that knows ids, sizes and slots. What it is not: a cache. It holds no keys and no values, reads
//! no clock and draws no entropy; the Content Store, the HTTP cache and the trace replayer each
//! keep their own index over it. Read [`Engine`] first, then [`Spec`]; [`registry`] lists the
//! policies.
//!
//! ```text
//!   owner's index          Engine
//!   key ──► Slot ──hit───► admission stages: on_request ──► eviction: on_hit
//!   key ──► ?    ──miss──► admission stages: on_request
//!           ⋯ fetch ⋯
//!                ──admit─► filter? and adaptsize? … ──► bool
//!                ──insert► victims out, Slot in
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
//! assert!(engine.admit(7, 60, now));          // it came, 60 bytes: worth storing?
//! let seven = engine.insert(7, 60, now, &mut victims).unwrap();
//! engine.hit(seven, 7, now);
//!
//! engine.insert(8, 60, now, &mut victims).unwrap();
//! assert_eq!(victims, [seven]);               // both do not fit
//! assert_eq!(engine.used(), ByteSize::from_bytes(60));
//! ```
#![deny(unsafe_code)]

/// The model by which AdaptSize tunes itself, for those who predict.
pub mod adaptsize_model {
    pub use crate::admit::adaptsize::foresight::{Foresight, Observed};
    pub use crate::admit::adaptsize::model::{Bin, Form, Model, Shape};
}
mod admit;
mod bloom;
mod cache;
mod engine;
mod evict;
mod future;
mod hash;
mod index;
mod job;
pub mod limits;
mod list;
mod parameters;
mod path;
mod prefetch;
mod registry;
mod request;
mod sketch;
mod spec;
mod traits;

pub use cache::{Cache, Victim};
pub use engine::Engine;
pub use future::{Future, FutureBuilder, FutureTooLong};
pub use index::{AnyIds, Ids, KeyedHashes, SlotIndex};
pub use job::{Job, JobDone};
pub use parameters::{Parameter, Preset, Values};
pub use path::Path;
pub use prefetch::{grow, prefetch};
pub use registry::{Kind, PolicyEntry, registry};
pub use request::{Request, Slot};
pub use spec::{Spec, SpecError};
pub use traits::{Admit, Evict, Gauge, Policy, Work};

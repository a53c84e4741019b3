//! Real programs on modelled links: hosts are network namespaces of this machine, and the
//! simulator's links connect them in real time.
//!
//! A [`Spec`] names hosts and links. [`Testbed::up`] creates a namespace with a TUN device for each
//! host and starts the link emulator. The emulator is one thread with real-time priority that reads
//! packets from the devices, sends them through [`larder_netsim::Links`], and writes them to the
//! devices of their destinations. Programs in the namespaces (a node, nginx, wget) need no change.
//! The emulator records its lateness. If the 99th percentile is above [`LATEST`], or on a long path
//! above a hundredth of the round trip, a value measured over it is not valid
//! ([`LatenessReport::is_sound_for`]).
//!
//! It is not a simulator: time is the machine's, and two runs differ. It does not carry Ethernet,
//! because the devices carry IP.
//!
//! The crate is a host: it owns namespaces, devices, threads and the clock. It needs root, iproute2
//! and util-linux.
//!
//! Read first: [`Spec`], [`Testbed`].
//!
//! ```text
//!  program ─ TUN ─┐                        ┌─ TUN ─ program
//!  (namespace)    ├─ channel ─ … ─ channel ┤     (namespace)
//!  program ─ TUN ─┘   (one thread, real-time)  └─ TUN ─ program
//! ```
//!
//! ```
//! use larder_testbed::Spec;
//!
//! let spec = Spec::parse("name = \"pair\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"100Mbps\"\ndelay = \"10ms\"\nloss = \"5%\"").unwrap();
//! assert_eq!(spec.address(spec.host("b").unwrap()).to_string(), "10.77.0.2");
//! ```
#![forbid(unsafe_code)]

mod bed;
mod emulator;
mod error;
mod lateness;
mod spec;

pub use bed::{Testbed, command, down};
pub use error::{Error, LinkError};
pub use lateness::{LATEST, LatenessReport};
pub use spec::{Link, Node, Spec, link};

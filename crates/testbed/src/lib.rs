//! Real programs on modelled links: hosts as network namespaces of this machine, and the
//! simulator's links between them by the real clock.
//!
//! A [`Spec`] names hosts and links. [`Testbed::up`] makes a namespace with a TUN device for each
//! host and starts the link emulator, one thread with real-time priority that takes packets out of
//! the devices, lets them cross [`larder_netsim::Links`], and puts them in where they lead.
//! Whatever runs in the namespaces (a node, nginx, wget) needs no change. The emulator counts how
//! late it is: above [`LATEST`] at the 99th percentile a figure measured over it is none
//! ([`LatenessReport::is_sound`]).
//!
//! It is not: a simulator (time is the machine's, and two runs differ), nor for Ethernet (devices
//! carry IP).
//!
//! It is a host: it owns namespaces, devices, threads and the clock. It needs root, iproute2 and
//! util-linux.
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
mod lateness;
mod spec;

pub use bed::{Testbed, command, down};
pub use lateness::{LATEST, LatenessReport};
pub use spec::{Link, Node, Spec, link};

use std::fmt;

/// Why a testbed cannot be built, or taken down: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

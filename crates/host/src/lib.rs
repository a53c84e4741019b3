//! What every host of a node takes from the system at its start: listening sockets, entropy, and
//! the size of its memory.
//!
//! What it is: the ground floor of the crates with threads and sockets. The NDN side, the HTTP side
//! and the admin server bind their listeners here, name clients by [`Peer`], and try a start with a
//! [`Preflight`]. What it is not: a runtime. It accepts no connection, reads no clock and starts no
//! thread.
//!
//! Read [`ListenAddress`] first, then [`ListenSocket`] and [`bind_beside`].
//!
//! ```
//! use larder_host::{ListenAddress, ListenSocket};
//!
//! let address: ListenAddress = "127.0.0.1:0".parse().unwrap();
//! let socket = ListenSocket::bind(&address.into(), &[]).unwrap();
//! assert!(socket.local().unwrap().is_local());
//! ```
#![forbid(unsafe_code)]

pub mod entropy;
mod error;
mod listen_address;
mod memory;
mod preflight;
mod socket_file;
mod sockets;

pub use error::ListenError;
pub use listen_address::{ListenAddress, ListenConfig, Peer, SOCKET_MODE};
pub use memory::memory;
pub use preflight::Preflight;
pub use socket_file::SocketFile;
pub use sockets::{ListenSocket, bind_beside, bind_listener};

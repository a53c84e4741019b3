//! Detects commands that leave an operator without help: before a node runs, and while it does.
//! The real program, real files, real sockets.

mod commands;
mod doctor;
mod figures;
mod init;
mod load;
mod node;
mod reload;
#[path = "../vacant/mod.rs"]
mod vacant;

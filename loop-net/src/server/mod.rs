//! Servers: listening sockets and what they accept.

mod builder;
mod clients;
mod handle;
mod handshake;
mod interrupted;
mod listen;
mod listener;
mod per_core;
mod proxy;

pub use builder::ServerBuilder;
pub use handle::{Drained, Server};
pub use per_core::{PerCore, PerCoreDrained, serve_per_core};

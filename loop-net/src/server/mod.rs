//! Servers: listening sockets and what they accept.

mod builder;
mod handle;
mod listen;
mod listener;

pub use builder::ServerBuilder;
pub use handle::{Drained, Server};

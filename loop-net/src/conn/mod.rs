//! A connection: pure state, a write buffer, and the engine that moves bytes.

mod accepted;
mod engine;
mod gather;
mod hooks;
mod info;
mod lending;
mod rare;
mod reading;
mod state;
mod write_buf;
mod writing;

pub(crate) use accepted::{Accepted, Acceptor};
pub(crate) use engine::{Conn, Shared};
pub(crate) use info::Info;
pub(crate) use lending::Lent;
#[cfg(feature = "tls")]
pub(crate) use write_buf::WriteBuf;

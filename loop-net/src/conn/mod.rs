//! A connection: pure state, a write buffer, and the engine that moves bytes.

mod engine;
mod state;
mod write_buf;

pub(crate) use engine::{Conn, Shared};

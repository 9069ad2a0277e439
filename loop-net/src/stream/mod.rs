//! Streams: a protocol of ours that tasks can read from and write to.

mod buffer;
mod protocol;
mod reader;
mod wake;
mod writer;

pub(crate) use protocol::StreamProtocol;
pub use reader::{ReadError, StreamReader};
pub use writer::StreamWriter;

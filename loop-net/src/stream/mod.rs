//! Streams: a protocol of ours that tasks can read from and write to.

mod error;
mod futures_io;
mod lines;
mod protocol;
mod reader;
mod search;
#[cfg(feature = "tokio-io")]
mod tokio_io;
mod writer;

pub use error::ReadError;
pub use lines::Lines;
pub(crate) use protocol::StreamProtocol;
pub use reader::StreamReader;
pub use writer::StreamWriter;

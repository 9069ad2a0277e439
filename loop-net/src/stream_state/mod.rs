//! What the two halves of a stream have in common with each other and with the connection that feeds them.

mod buffer;
pub(crate) mod flags;
mod stream;
mod wake;

pub(crate) use buffer::Buffer;
pub(crate) use stream::Stream;
pub(crate) use wake::Wakers;

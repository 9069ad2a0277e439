//! Datagrams: UDP and Unix sockets.

mod builder;
mod engine;
mod protocol;
mod queue;
mod socket;
mod transport;

pub use builder::DatagramBuilder;
pub use protocol::DatagramProtocol;
pub use transport::DatagramTransport;

//! TLS over any transport, by rustls. The rest of the crate knows of it only that a transport may be a
//! layer on another one.

mod conn;
mod info;
mod layer;
mod phase;
mod reading;
mod session;
mod settings;
mod start;
mod writing;

pub use info::TlsInfo;
pub use settings::Tls;
pub use start::TlsProtocol;
pub(crate) use start::{start, start_stream};

//! Child processes: as streams (level 3), and with hooks (level 2), on one watch of the child.

mod builder;
mod child;
mod conn;
mod handle;
mod protocol;
mod stdio;
mod watch;

pub use builder::ProcessBuilder;
pub use conn::ProcessTransport;
pub use handle::Process;
pub use protocol::{ChildPipe, ProcessProtocol};
pub use stdio::Stdio;

//! Virtual time: loops whose clock jumps instead of waiting.

mod autojump;
mod deadlock;
mod hold;
mod selector;

pub(crate) use autojump::is_stalled;
pub(crate) use hold::Holds;

pub use autojump::AutoJump;
pub use deadlock::Deadlock;
pub use hold::TimeHold;
pub use selector::SimSelector;

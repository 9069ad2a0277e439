//! `Counter`: the width of what is counted up to tell timers apart.

/// Counts a slot's reuses and the heap's insertions. Four bytes keep an entry small; both counts
/// have a defined end. The crate's own unit tests count in one byte, so that they get there.
#[cfg(not(test))]
pub(crate) type Counter = u32;
#[cfg(not(test))]
pub(crate) type NonZeroCounter = core::num::NonZeroU32;

#[cfg(test)]
pub(crate) type Counter = u8;
#[cfg(test)]
pub(crate) type NonZeroCounter = core::num::NonZeroU8;

//! What is unusual about a stream.

use std::cell::Cell;

/// The stream has ended: there is nothing to come behind what is buffered.
pub(crate) const EOF: u8 = 1;
/// The connection is over; always with `EOF`.
pub(crate) const LOST: u8 = 2;
/// The transport asked for a pause in writing.
pub(crate) const FULL: u8 = 4;
/// The transport was asked for a pause in reading.
pub(crate) const READ_PAUSED: u8 = 8;
/// The reader was dropped: what comes in is thrown away.
pub(crate) const UNREAD: u8 = 16;
/// The reader holds bytes that were shown and not consumed.
pub(crate) const SHOWN: u8 = 32;
/// A read that took bytes out has left some behind, which may have been read since.
pub(crate) const PIPELINED: u8 = 64;
/// The limit is less than what is received at once without asking for it.
pub(crate) const NARROW: u8 = 128;

/// Bits of which none is set most of the time, so that what is done for every read and write looks at one
/// byte.
#[derive(Default)]
pub(crate) struct Flags(Cell<u8>);

impl Flags {
    /// Whether any of these is set.
    #[inline]
    pub(crate) fn has(&self, bits: u8) -> bool {
        self.0.get() & bits != 0
    }

    /// Sets or clears all of these.
    #[inline]
    pub(crate) fn put(&self, bits: u8, on: bool) {
        let others = self.0.get() & !bits;
        self.0.set(if on { others | bits } else { others });
    }
}

//! What a running hook has written so far: it leaves in one call when the hook returns.

use std::cell::{Cell, RefCell, RefMut};
use std::ptr;

use super::info::Info;

/// A buffer that grew beyond this is given back to the allocator.
const KEEP: usize = 256 * 1024;

/// One a loop, for the outermost running hook. A hook inside another's (a write to another connection
/// that fills its buffer calls `pause_writing` there) gathers nothing: its writes are sent at once.
pub(crate) struct Gather {
    bytes: RefCell<Vec<u8>>,
    /// Of the connection whose hook runs; null if none does. Only compared, never followed.
    owner: Cell<*const Info>,
    /// One more than the bytes that a plain copy may still add. Zero once the state of the connection,
    /// its marks or its own buffer are concerned; as long as it is not, all three are as at the start.
    room: Cell<usize>,
}

impl Gather {
    pub(super) fn new() -> Self {
        Gather { bytes: RefCell::default(), owner: Cell::new(ptr::null()), room: Cell::new(0) }
    }

    /// The room for a connection with this high-water mark. What is gathered so never makes the buffer too
    /// large to keep.
    pub(super) fn room_for(high: usize) -> u32 {
        high.min(KEEP / 2) as u32 + 1
    }

    /// Begins to gather for a connection: with nothing but a copy as long as nothing is buffered and nothing
    /// but writes is expected. `false` if another hook gathers already.
    #[inline]
    pub(super) fn begin(&self, info: &Info) -> bool {
        if !self.owner.get().is_null() {
            return false;
        }
        self.owner.set(info);
        self.room.set(if info.state.get().is_quiet() { info.room.get() as usize } else { 0 });
        true
    }

    #[inline]
    pub(super) fn belongs_to(&self, info: &Info) -> bool {
        ptr::eq(self.owner.get(), info)
    }

    /// The common write: the connection's hook adds some bytes within the marks. `false` if it is anything
    /// else.
    #[inline]
    pub(crate) fn take(&self, info: &Info, data: &[u8]) -> bool {
        let room = self.room.get();
        if data.len() >= room || !self.belongs_to(info) {
            return false;
        }
        self.room.set(room - data.len());
        self.push(data);
        true
    }

    #[inline]
    pub(super) fn push(&self, data: &[u8]) {
        self.bytes.borrow_mut().extend_from_slice(data);
    }

    /// Whether the hook has done nothing to its connection but small writes.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.room.get() > 0
    }

    /// Something else happened to the connection.
    #[inline]
    pub(super) fn disturb(&self, info: &Info) {
        if self.belongs_to(info) {
            self.room.set(0);
        }
    }

    /// What is gathered.
    #[inline]
    pub(super) fn bytes(&self) -> RefMut<'_, Vec<u8>> {
        self.bytes.borrow_mut()
    }

    pub(super) fn len_for(&self, info: &Info) -> usize {
        if self.belongs_to(info) { self.bytes.borrow().len() } else { 0 }
    }

    /// Empties the buffer, and makes it small again.
    pub(super) fn clear(&self) {
        let mut bytes = self.bytes();
        bytes.clear();
        if bytes.capacity() > KEEP {
            bytes.shrink_to(KEEP);
        }
    }

    /// The hook has returned.
    #[inline]
    pub(super) fn end(&self) {
        self.owner.set(ptr::null());
        self.room.set(0);
    }
}

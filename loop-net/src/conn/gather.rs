//! What a running hook has written so far: it leaves in one call when the hook returns.

use std::cell::{Cell, RefCell, RefMut};
use std::ptr;

use super::engine::Conn;

/// A buffer that grew beyond this is given back to the allocator.
const KEEP: usize = 256 * 1024;

/// One a loop, for the outermost running hook. A hook inside another's (a write to another connection
/// that fills its buffer calls `pause_writing` there) gathers nothing: its writes are sent at once.
pub(crate) struct Gather {
    bytes: RefCell<Vec<u8>>,
    /// Whose hook runs; null if none does. Only compared, never followed.
    owner: Cell<*const Conn>,
    /// One more than the bytes that a plain copy may still add. Zero once the state of the connection,
    /// its marks or its own buffer are concerned; as long as it is not, all three are as at the start.
    room: Cell<usize>,
}

impl Gather {
    pub(super) fn new() -> Self {
        Gather { bytes: RefCell::default(), owner: Cell::new(ptr::null()), room: Cell::new(0) }
    }

    /// Begins to gather for `conn`, up to the high-water mark with nothing but a copy if `quiet`:
    /// nothing is buffered and nothing but writes is expected. `false` if another hook gathers already.
    #[inline]
    pub(super) fn begin(&self, conn: &Conn, quiet: bool) -> bool {
        if !self.owner.get().is_null() {
            return false;
        }
        self.owner.set(conn);
        self.room.set(if quiet { conn.high.get() + 1 } else { 0 });
        true
    }

    #[inline]
    pub(super) fn belongs_to(&self, conn: *const Conn) -> bool {
        ptr::eq(self.owner.get(), conn)
    }

    /// The common write: `conn`'s hook adds some bytes within the marks. `false` if it is anything else.
    #[inline]
    pub(crate) fn take(&self, conn: *const Conn, data: &[u8]) -> bool {
        let room = self.room.get();
        if !self.belongs_to(conn) || data.len() >= room {
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

    /// Something else happened to `conn`.
    #[inline]
    pub(super) fn disturb(&self, conn: &Conn) {
        if self.belongs_to(conn) {
            self.room.set(0);
        }
    }

    /// What is gathered.
    #[inline]
    pub(super) fn bytes(&self) -> RefMut<'_, Vec<u8>> {
        self.bytes.borrow_mut()
    }

    pub(super) fn len_for(&self, conn: &Conn) -> usize {
        if self.belongs_to(conn) { self.bytes.borrow().len() } else { 0 }
    }

    pub(super) fn clear(&self) {
        forget(&mut self.bytes());
    }

    /// The hook has returned.
    #[inline]
    pub(super) fn end(&self) {
        self.owner.set(ptr::null());
    }
}

/// Empties the buffer, and makes it small again.
#[inline]
pub(super) fn forget(bytes: &mut Vec<u8>) {
    bytes.clear();
    if bytes.capacity() > KEEP {
        bytes.shrink_to(KEEP);
    }
}

//! What is written leaves in one call: a hook's when the hook returns, the rest at the end of the iteration.

use std::cell::{Cell, RefCell, RefMut};
use std::mem;
use std::ptr;
use std::rc::Rc;

use loop_core::{BeforeWait, HeldPanic, hold_panic};

use super::engine::{Conn, Shared};
use super::info::Info;
use super::write_buf::Spare;

/// A buffer that grew beyond this is given back to the allocator.
const KEEP: usize = 256 * 1024;

/// So many places for connections are kept.
const KEEP_PLACES: usize = 1024;

/// So many of their buffers.
const KEEP_SPARES: usize = 64;

/// The owner while nobody gathers: one while the loop is going to call at the end of the iteration, and another one
/// else. So one look tells whether a first write may wait.
#[inline]
fn nobody(called: bool) -> *const Info {
    ptr::without_provenance(usize::from(called))
}

/// One a loop, for one connection at a time: that of the outermost running hook, else the first that a task or a
/// callback writes to. What is written to others meanwhile waits in their own buffers.
pub(crate) struct Gather {
    bytes: RefCell<Vec<u8>>,
    /// Whose they are; [`nobody`] if nobody gathers. Only compared, never followed.
    owner: Cell<*const Info>,
    /// The owner, unless one of its hooks runs.
    loose: Cell<Option<Rc<Conn>>>,
    /// One more than the bytes that a plain copy may still add. Zero once the state of the connection,
    /// its marks or its own buffer are concerned; as long as it is not, all three are as at the start.
    room: Cell<usize>,
    /// Connections whose own buffers wait for the end of the iteration, and some that did.
    waiting: RefCell<Vec<Rc<Conn>>>,
    /// Memory of their buffers.
    spares: RefCell<Vec<Spare>>,
    /// Whether the loop will call at the end of the iteration under way.
    called: Cell<bool>,
}

impl Gather {
    pub(super) fn new() -> Self {
        Gather {
            bytes: RefCell::default(),
            owner: Cell::new(nobody(false)),
            loose: Cell::default(),
            room: Cell::new(0),
            waiting: RefCell::default(),
            spares: RefCell::default(),
            called: Cell::new(false),
        }
    }

    /// The room for a connection with this high-water mark. What is gathered so never makes the buffer too
    /// large to keep.
    pub(super) fn room_for(high: usize) -> u32 {
        high.min(KEEP / 2) as u32 + 1
    }

    /// Begins to gather for a hook: with nothing but a copy as long as nothing is buffered and nothing but writes
    /// is expected. `false` if somebody gathers already.
    #[inline]
    pub(super) fn begin(&self, info: &Info) -> bool {
        let free = self.is_free();
        if free {
            self.own(info);
        }
        free
    }

    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.owner.get().addr() <= 1
    }

    #[inline]
    fn own(&self, info: &Info) {
        self.owner.set(info);
        self.room.set(info.room.get() as usize);
    }

    /// The same from whoever gathers until the end of the iteration: the bytes are the hook's if they are its
    /// connection's, or else go into a buffer of their own. `false` if another hook gathers.
    pub(super) fn take_over(&self, info: &Info) -> bool {
        let Some(conn) = self.loose.take() else { return false };
        if !self.belongs_to(info) {
            self.displace(conn);
            self.own(info);
        }
        true
    }

    /// Moves what is gathered to the buffer of its connection.
    fn displace(&self, conn: Rc<Conn>) {
        if !self.bytes().is_empty() {
            let buffering = conn.state().has_buffered();
            conn.put_off(&self.bytes(), !buffering);
            self.clear();
            self.remember(conn);
        }
    }

    /// Until the end of the iteration. One that writes and flushes again and again has one place.
    fn remember(&self, conn: Rc<Conn>) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.last().is_none_or(|last| !Rc::ptr_eq(last, &conn)) {
            waiting.push(conn);
        }
    }

    /// The first write of a task or a callback to this connection, if nobody gathers yet and it is a small one
    /// that may wait until the end of the iteration. Those that follow are [taken](Self::take).
    #[inline]
    pub(super) fn take_first(&self, info: &Info, data: &[u8]) -> bool {
        let room = info.room.get() as usize;
        if data.len() >= room || self.owner.get() != nobody(true) || data.is_empty() {
            return false;
        }
        let Some(conn) = info.conn.upgrade() else { return false };
        // There was none, for there was no owner; a look whether it is to be dropped costs five instructions.
        mem::forget(self.loose.replace(Some(conn)));
        self.owner.set(info);
        self.room.set(room - data.len());
        self.push(data);
        true
    }

    /// Begins to gather until the end of the iteration, if nobody does and one is under way.
    pub(super) fn begin_loosely(&self, info: &Info) -> bool {
        if !self.may_wait(&info.shared) || self.owner.get() != nobody(true) {
            return false;
        }
        let Some(conn) = info.conn.upgrade() else { return false };
        self.loose.set(Some(conn));
        self.own(info);
        true
    }

    /// The loop is going to call, or has called.
    fn call(&self, called: bool) {
        self.called.set(called);
        if self.is_free() {
            self.owner.set(nobody(called));
        }
    }

    /// Whether what is written now may wait: the loop is going to call.
    pub(super) fn may_wait(&self, shared: &Rc<Shared>) -> bool {
        if !self.called.get() {
            self.call(shared.lp.call_before_wait(shared.clone()));
        }
        self.called.get()
    }

    /// The connection, if it gathers loosely. Whoever takes it sends what is gathered.
    #[inline]
    pub(super) fn take_loose(&self, info: &Info) -> Option<Rc<Conn>> {
        if self.belongs_to(info) { self.loose.take() } else { None }
    }

    /// Remembers a connection whose own buffer may wait until the end of the iteration; `false` if that may not be.
    pub(super) fn put_off(&self, info: &Info) -> bool {
        let conn = if self.may_wait(&info.shared) { info.conn.upgrade() } else { None };
        let Some(conn) = conn else { return false };
        self.remember(conn);
        true
    }

    #[inline]
    pub(super) fn belongs_to(&self, info: &Info) -> bool {
        ptr::eq(self.owner.get(), info)
    }

    /// The common write: it adds some bytes within the marks to what is gathered for this connection. `false` if it
    /// is anything else.
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

    /// Whether nothing was done to the connection but small writes.
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

    /// Memory for the buffer of a connection.
    pub(super) fn spare(&self) -> Option<Spare> {
        self.spares.borrow_mut().pop()
    }

    pub(super) fn keep(&self, spare: Option<Spare>) {
        let mut spares = self.spares.borrow_mut();
        if spares.len() < KEEP_SPARES {
            spares.extend(spare);
        }
    }

    /// What is gathered for this connection is not to be sent.
    pub(super) fn forget(&self, info: &Info) {
        if self.belongs_to(info) {
            self.clear();
            if self.loose.take().is_some() {
                self.end();
            }
        }
    }

    /// The hook has returned, or the bytes were sent before.
    #[inline]
    pub(super) fn end(&self) {
        self.owner.set(nobody(self.called.get()));
    }
}

impl BeforeWait for Shared {
    /// Sends all that has waited. What that causes to be written is sent at once.
    fn before_wait(self: Rc<Self>) {
        let gather = &self.gather;
        gather.call(false);
        let mut abort = None;
        let mut run = |conn: Rc<Conn>, send: fn(Rc<Conn>, &Gather)| {
            // The others' bytes leave also if a hook ends the loop.
            if let Err(panic) = hold_panic(|| send(conn, gather)) {
                abort.get_or_insert(panic);
            }
        };
        if let Some(conn) = gather.loose.take() {
            run(conn, |conn, gather| _ = conn.send_loose(gather));
        }
        if !gather.waiting.borrow().is_empty() {
            let mut waiting = gather.waiting.take();
            waiting.drain(..).for_each(|conn| run(conn, |conn, _| conn.send_put_off()));
            waiting.shrink_to(KEEP_PLACES);
            gather.waiting.replace(waiting);
        }
        if let Some(abort) = abort {
            HeldPanic::resume(abort);
        }
    }
}

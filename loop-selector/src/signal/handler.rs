//! The one handler of the process, and the list of watchers it walks.
//!
//! # Why this is sound
//!
//! **The handler is async-signal-safe.** It uses atomics and one write(2) a watcher at most, and
//! leaves `errno` as it was. It takes no lock, allocates nothing and cannot panic: the only index,
//! the signal's number, is looked up with `get`.
//!
//! **The handler follows no dangling pointer.** It finds the watchers in a list of `Node`s that are
//! never freed, only reused, so walking it is always allowed. A node in use points to the state of
//! a waker, which the node's [`Listener`] keeps alive. The handler keeps the node's `readers`
//! above zero while it uses that pointer: it adds one, loads the pointer, wakes through it, subtracts
//! one. A listener that goes swaps in null, waits until it has seen `readers` at zero, and only then
//! lets that state go. These steps are sequentially consistent: they have one order. A handler that
//! loaded the pointer did so before the swap, so it had added its one before the swap as well; the
//! zero was seen after the swap, so after that one was subtracted again, which is the handler's last
//! use of the pointer. A handler that loads after the swap gets null. The wait ends soon: a handler
//! on another thread never waits for anything, and one that interrupts the waiting thread runs
//! to its end first. (Only in the child of a `fork` that hit another thread inside the handler would
//! it not end; POSIX allows such a child little but `exec` and `_exit`.)

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use super::number::{MAX, Signal};
use super::sys;
use crate::waker::Shared;

/// One place for each signal, and one for zero, which is none.
pub(super) const TABLE: usize = MAX as usize + 1;

static DELIVERED: [AtomicU64; TABLE] = [const { AtomicU64::new(0) }; TABLE];

static DELIVERED_IN_ALL: AtomicU64 = AtomicU64::new(0);

/// Deliveries of `signal` since the process began, as far as we were its handler.
pub(super) fn delivered(signal: Signal) -> u64 {
    DELIVERED[signal.index()].load(SeqCst)
}

/// Deliveries of all signals: who sees one here sees it in [`delivered`] as well.
#[inline]
pub(super) fn delivered_in_all() -> u64 {
    DELIVERED_IN_ALL.load(SeqCst)
}

/// The first of the nodes.
static NODES: Node = Node::new();

/// A watcher, as the handler sees it.
struct Node {
    taken: AtomicBool,
    readers: AtomicUsize,
    target: AtomicPtr<Shared>,
    /// Bit n - 1 stands for signal n.
    watched: AtomicU64,
    /// Reading it is one atomic load, which a handler may do.
    next: OnceLock<Box<Node>>,
}

impl Node {
    const fn new() -> Node {
        Node {
            taken: AtomicBool::new(false),
            readers: AtomicUsize::new(0),
            target: AtomicPtr::new(ptr::null_mut()),
            watched: AtomicU64::new(0),
            next: OnceLock::new(),
        }
    }

    /// Handler: wakes the watcher, if there is one and it watches this. If the node changes hands
    /// in between, its new watcher is woken for nothing, which is harmless.
    fn wake(&self, bit: u64) {
        if self.watched.load(SeqCst) & bit == 0 {
            return;
        }
        self.readers.fetch_add(1, SeqCst);
        let target = self.target.load(SeqCst);
        if !target.is_null() {
            // SAFETY: `Listener::new` took the pointer from an `Arc` that its listener owns and
            // lets go only after it has replaced the pointer and then seen `readers` at zero. We
            // loaded it with `readers` above zero, and are still above: see the top of this file.
            #[allow(unsafe_code)]
            unsafe { &*target }.wake();
        }
        self.readers.fetch_sub(1, SeqCst);
    }
}

/// A place in the handler's list, and the state it wakes there. Leaking one is harmless: both live
/// on together.
pub(super) struct Listener {
    node: &'static Node,
    target: Arc<Shared>,
}

impl Listener {
    /// Takes a free node, or adds one. O(the most listeners there ever were at once).
    pub(super) fn new(target: Arc<Shared>) -> Listener {
        let mut node = &NODES;
        while node.taken.swap(true, SeqCst) {
            node = node.next.get_or_init(|| Box::new(Node::new()));
        }
        node.target.store(Arc::as_ptr(&target).cast_mut(), SeqCst);
        Listener { node, target }
    }

    /// From here on deliveries of `signal` wake it.
    pub(super) fn watch(&self, signal: Signal) {
        self.node.watched.fetch_or(signal.bit(), SeqCst);
    }

    /// From here on they do not.
    pub(super) fn unwatch(&self, signal: Signal) {
        self.node.watched.fetch_and(!signal.bit(), SeqCst);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.node.watched.store(0, SeqCst);
        let target = self.node.target.swap(ptr::null_mut(), SeqCst);
        debug_assert!(ptr::eq(target, Arc::as_ptr(&self.target)));
        while self.node.readers.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        self.node.taken.store(false, SeqCst);
        // Now, and not before, `target` may go.
    }
}

/// Runs between any two instructions of any thread: see the top of this file.
pub(super) extern "C" fn handler(number: libc::c_int) {
    let errno = sys::errno();
    if let Some(delivered) = usize::try_from(number).ok().and_then(|i| DELIVERED.get(i)) {
        delivered.fetch_add(1, SeqCst);
        DELIVERED_IN_ALL.fetch_add(1, SeqCst);
        let bit = 1u64.wrapping_shl(number.wrapping_sub(1) as u32);
        let mut node = Some(&NODES);
        while let Some(current) = node {
            current.wake(bit);
            node = current.next.get().map(|next| &**next);
        }
    }
    sys::set_errno(errno);
}

//! `HandlePool`: handles that are done, kept to be filled again.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

use crate::callback::Outcome;
use crate::context::Context;
use crate::handle::Handle;

/// How many handles a pool keeps: what runs in one turn of a busy loop. At 256 bytes each, a full
/// pool is a quarter of a mebibyte.
const MOST_KEPT: usize = 1_024;

/// One-shot handles that are done, and the memory of which serves for new ones.
///
/// Allocating and freeing is most of what a short callback costs. A loop schedules the same few
/// closures over and over, so it hands every handle back to its pool after the run: the next closure
/// of the same type goes into the same memory.
///
/// A pool keeps no value of a user's, at most 1,024 handles, and none of more than 256 bytes. It only
/// ever looks at the handle that came back last; if that was made for another type of closure, its
/// memory is freed and the new handle gets its own. So a pool costs next to nothing where it does not
/// help.
///
/// ```
/// use loop_handle::{HandlePool, Run};
/// use std::{cell::Cell, rc::Rc};
///
/// let pool = HandlePool::new();
/// let sum = Rc::new(Cell::new(0));
/// for n in 1..=100 {
///     let sum = sum.clone();
///     let handle = pool.once(move || sum.set(sum.get() + n)); // allocates in the first turn only
///     assert!(matches!(handle.run(), Run::Done));
///     pool.recycle(handle);
/// }
/// assert_eq!(sum.get(), 5_050);
/// ```
pub struct HandlePool {
    /// Cleared, and each the only reference to its node.
    spare: RefCell<Vec<Handle>>,
}

impl HandlePool {
    /// An empty pool.
    pub const fn new() -> HandlePool {
        HandlePool { spare: RefCell::new(Vec::new()) }
    }

    /// As [`Handle::once`]; allocates nothing if the handle that came back last fits.
    #[track_caller]
    pub fn once<F, R>(&self, f: F) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        self.once_at(Location::caller(), None, f)
    }

    /// As [`Handle::once_at`]; with an explicit `context` the handle is always allocated.
    // A closure is made in one place, so there is one copy of this for it anyhow; inlined it is not passed in memory.
    #[inline(always)]
    pub fn once_at<F, R>(
        &self,
        site: &'static Location<'static>,
        context: Option<&Context>,
        f: F,
    ) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        let spare = if context.is_none() { self.spare.borrow_mut().pop() } else { None };
        if let Some(mut handle) = spare {
            if let Some(node) = handle.node_for() {
                node.refill(site, f);
                return handle;
            }
        }
        Handle::once_at(site, context, f)
    }

    /// Lets go of a handle, and keeps its memory if it is a one-shot handle, is done and has no clones.
    /// Any handle may be given; one that may still run, or that somebody else holds, is just dropped.
    ///
    /// # Panics
    /// If a destructor of what the handle held does; the handle is not kept then.
    #[inline]
    pub fn recycle(&self, mut handle: Handle) {
        if handle.clear() {
            let mut spare = self.spare.borrow_mut();
            if spare.len() < MOST_KEPT {
                spare.push(handle);
            }
        }
    }
}

impl Default for HandlePool {
    fn default() -> HandlePool {
        HandlePool::new()
    }
}

impl fmt::Debug for HandlePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlePool").field("spare", &self.spare.borrow().len()).finish()
    }
}

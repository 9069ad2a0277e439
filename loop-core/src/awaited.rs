//! What tasks wait for, for those who ask: a dump, the report of a deadlock.
//!
//! Nobody takes notes when a task waits. A thing that can be waited for enters the thread's list when it
//! first has somebody waiting, and leaves it when it is dropped. Who asks goes through the list and looks
//! at the wakers: a task is known by its waker.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::rc::Weak;
use std::task::Waker;

use slab::Slab;

use crate::introspect::WaitsFor;

thread_local! {
    static LISTED: RefCell<Slab<Weak<dyn Awaited>>> = const { RefCell::new(Slab::new()) };
    static NOTE_HOLDERS: Cell<bool> = const { Cell::new(false) };
}

/// Something that tasks wait for. Implement it for a primitive of your own, and keep a [`Listing`] in it,
/// for its waits to have a name in a [`Dump`](crate::Dump).
///
/// ```
/// use loop_core::{Awaited, Listing, WaitsFor};
/// use std::{cell::RefCell, future::poll_fn, panic::Location, rc::Rc, task::{Poll, Waker}};
///
/// struct Latch { site: &'static Location<'static>, waiter: RefCell<Option<Waker>>, listing: Listing }
///
/// impl Awaited for Latch {
///     fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
///         if let Some(waker) = &*self.waiter.borrow() {
///             visit(waker, WaitsFor::object("latch", self.site));
///         }
///     }
/// }
///
/// # let mut event_loop = loop_core::EventLoop::new()?;
/// let latch = Rc::new(Latch {
///     site: Location::caller(), waiter: RefCell::default(), listing: Listing::new()
/// });
/// let task = event_loop.spawn(poll_fn(move |cx| {
///     latch.listing.enter(|| Rc::downgrade(&latch) as _);
///     *latch.waiter.borrow_mut() = Some(cx.waker().clone());
///     Poll::<()>::Pending
/// }));
/// event_loop.run_once(Some(std::time::Duration::ZERO))?;
/// assert!(event_loop.dump().to_string().contains("waits for latch created at"));
/// # drop(task);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Awaited {
    /// Shows the waker of each who waits now, and what for; once for each thing if it waits for several.
    /// The wakers are only looked at, with no user code run.
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor));
}

const NONE: u32 = u32::MAX;

/// An [`Awaited`]'s place in its thread's list, from the first [`enter`](Self::enter) until this is
/// dropped. It costs nothing before that and a few nanoseconds then.
pub struct Listing {
    /// `u32::MAX` before it has one.
    index: Cell<u32>,
    /// The list is the thread's.
    not_send: PhantomData<*const ()>,
}

impl Listing {
    /// No place yet.
    pub const fn new() -> Self {
        Listing { index: Cell::new(NONE), not_send: PhantomData }
    }

    /// Enters what `awaited` makes, unless that was done before.
    #[inline]
    pub fn enter(&self, awaited: impl FnOnce() -> Weak<dyn Awaited>) {
        if self.index.get() == NONE {
            // What makes it is the primitive's own code, which may enter another.
            self.enter_now(awaited());
        }
    }

    #[cold]
    fn enter_now(&self, awaited: Weak<dyn Awaited>) {
        let index = LISTED.with(|listed| listed.borrow_mut().insert(awaited));
        // That many do not fit into memory.
        self.index.set(u32::try_from(index).unwrap_or(NONE));
    }
}

impl Default for Listing {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        let index = self.index.get();
        if index != NONE {
            // A thread that ends may have dropped its list before.
            let left = LISTED.try_with(|listed| listed.borrow_mut().try_remove(index as usize));
            drop(left);
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("entered", &(self.index.get() != NONE)).finish()
    }
}

/// Calls `visit` with everything that is waited for on this thread, in the order in which it was entered,
/// as far as places were not used again. O(n), and no borrow is held meanwhile.
pub(crate) fn each(mut visit: impl FnMut(&dyn Awaited)) {
    let listed: Vec<_> = LISTED.with(|listed| {
        listed.borrow().iter().filter_map(|(_, awaited)| awaited.upgrade()).collect()
    });
    for awaited in &listed {
        visit(&**awaited);
    }
}

/// From now on, locks of this thread note who holds them: debug mode and virtual time ask for it.
pub(crate) fn note_holders() {
    NOTE_HOLDERS.set(true);
}

#[inline]
pub(crate) fn holders_are_noted() -> bool {
    NOTE_HOLDERS.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entering_may_enter_another() {
        let (outer, inner) = (Listing::new(), Listing::new());
        let nothing = || Weak::<Never>::new() as Weak<dyn Awaited>;
        outer.enter(|| {
            inner.enter(nothing);
            nothing()
        });
        assert!(outer.index.get() != NONE && inner.index.get() != NONE);
        assert_ne!(outer.index.get(), inner.index.get());
    }

    struct Never;

    impl Awaited for Never {
        fn each_wait(&self, _: &mut dyn FnMut(&Waker, WaitsFor)) {}
    }
}

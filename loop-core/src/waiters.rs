//! Who waits for an outcome: callbacks and wakers, in one order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use loop_handle::Handle;

use crate::finished::Finished;
use crate::guard;
use crate::loop_ref::LoopRef;

/// A done callback, to remove it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallbackId(u64);

enum Waiter {
    Callback(Handle),
    Wake(Waker),
    /// A combinator, which knows this future or task by a number.
    Member(Rc<Finished>, usize),
}

/// The waiters of one future or task. Removing is O(n) in them.
#[derive(Default)]
pub(crate) struct Waiters {
    entries: RefCell<Vec<(u64, Waiter)>>,
    next_id: Cell<u64>,
}

impl Waiters {
    fn push(&self, waiter: Waiter) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.entries.borrow_mut().push((id, waiter));
        id
    }

    /// Shows the wakers, for those who ask who waits.
    pub(crate) fn each_waker(&self, visit: &mut dyn FnMut(&Waker)) {
        for (_, waiter) in &*self.entries.borrow() {
            match waiter {
                Waiter::Wake(waker) => visit(waker),
                Waiter::Member(finished, _) => finished.each_waker(visit),
                Waiter::Callback(_) => {}
            }
        }
    }

    fn take(&self, id: u64) -> Option<Waiter> {
        let mut entries = self.entries.borrow_mut();
        // Ids ascend, so the list is sorted by them.
        let index = entries.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(entries.remove(index).1)
    }

    pub(crate) fn add_callback(&self, handle: Handle) -> CallbackId {
        CallbackId(self.push(Waiter::Callback(handle)))
    }

    /// Notes the end in `finished`, under the number `member`. To be deregistered by what comes back.
    pub(crate) fn add_member(&self, finished: Rc<Finished>, member: usize) -> u64 {
        self.push(Waiter::Member(finished, member))
    }

    /// Removes a callback that has not been queued yet.
    pub(crate) fn remove_callback(&self, id: CallbackId) -> bool {
        self.take(id.0).is_some()
    }

    /// Registers a waker, or replaces the one registered under `id` if it wakes another (B-FUT-19).
    pub(crate) fn register(&self, id: &mut Option<u64>, waker: &Waker) {
        if let Some(id) = *id {
            let same = self.entries.borrow().iter().any(|(other, waiter)| {
                *other == id && matches!(waiter, Waiter::Wake(kept) if kept.will_wake(waker))
            });
            if same {
                return;
            }
        }
        // Cloning and dropping a waker is user code: no borrow is held around either.
        let mut new = Some(waker.clone());
        let old = id.and_then(|id| {
            let mut entries = self.entries.borrow_mut();
            let (_, waiter) = entries.iter_mut().find(|(other, _)| *other == id)?;
            Some(std::mem::replace(waiter, Waiter::Wake(new.take()?)))
        });
        drop(old);
        if let Some(new) = new {
            *id = Some(self.push(Waiter::Wake(new)));
        }
    }

    pub(crate) fn deregister(&self, id: u64) {
        let old = self.take(id);
        drop(old);
    }

    /// Takes the waker that has waited longest, and its id.
    pub(crate) fn take_first_waker(&self) -> Option<(u64, Waker)> {
        let mut entries = self.entries.borrow_mut();
        let index = entries.iter().position(|(_, waiter)| matches!(waiter, Waiter::Wake(_)))?;
        match entries.remove(index) {
            (id, Waiter::Wake(waker)) => Some((id, waker)),
            _ => unreachable!("the position of a waker"),
        }
    }

    /// Queues the callbacks and wakes the wakers, in the order in which they came (B-FUT-05). If the
    /// loop is closed, or gone (`None`), callbacks are dropped and wakers still woken. Whether a
    /// callback was dropped.
    pub(crate) fn complete(&self, lp: Option<&LoopRef>) -> bool {
        let mut dropped = false;
        let entries = std::mem::take(&mut *self.entries.borrow_mut());
        for (_, waiter) in entries {
            match (waiter, lp) {
                (Waiter::Callback(handle), Some(lp)) if !lp.is_closed() => lp.call_handle(&handle),
                (Waiter::Callback(handle), lp) => {
                    dropped = true;
                    match lp {
                        Some(lp) => guard::discard(lp, handle),
                        None => drop(handle),
                    }
                }
                (Waiter::Wake(waker), Some(lp)) => guard::wake(lp, waker),
                (Waiter::Wake(waker), None) => waker.wake(),
                (Waiter::Member(finished, member), lp) => finished.add(member, lp),
            }
        }
        dropped
    }
}

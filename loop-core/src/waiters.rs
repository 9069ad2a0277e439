//! Who waits for an outcome: callbacks and wakers, in one order.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use loop_handle::Handle;

use crate::finished::Finished;
use crate::guard;
use crate::loop_ref::LoopRef;
use crate::task::{self, Awaiter, AwaiterKind};

/// A done callback, to remove it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallbackId(u64);

enum Waiter {
    Callback(Handle),
    Wake(Awaiter),
    /// A combinator, which knows this future or task by a number.
    Member(Rc<Finished>, usize),
}

/// The waiters of one future or task of a loop, whose number is `home` wherever it is asked for. Removing is O(n)
/// in them.
#[derive(Default)]
pub(crate) struct Waiters {
    entries: RefCell<Entries>,
    next_id: Cell<u64>,
}

/// In the order of their ids. Most have one waiter at most, which costs no allocation; the others
/// begin with it.
#[derive(Default)]
struct Entries {
    first: Option<(u64, Waiter)>,
    /// Boxed, for it is hardly ever there.
    rest: Option<Box<Rest>>,
}

type Rest = Vec<(u64, Waiter)>;

impl Entries {
    fn push(&mut self, entry: (u64, Waiter)) {
        match self.first {
            None => self.first = Some(entry),
            Some(_) => self.rest.get_or_insert_default().push(entry),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &(u64, Waiter)> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| &**rest))
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Waiter> {
        let rest = self.rest.iter_mut().flat_map(|rest| &mut **rest);
        let mut entries = self.first.iter_mut().chain(rest);
        entries.find(|(other, _)| *other == id).map(|(_, waiter)| waiter)
    }

    /// Takes out the first one that is wanted.
    fn take_if(&mut self, wanted: impl Fn(&(u64, Waiter)) -> bool) -> Option<(u64, Waiter)> {
        if self.first.as_ref().is_some_and(&wanted) {
            let next = self.rest.as_mut().filter(|rest| !rest.is_empty());
            let next = next.map(|rest| rest.remove(0));
            return std::mem::replace(&mut self.first, next);
        }
        let rest = self.rest.as_mut()?;
        let index = rest.iter().position(wanted)?;
        Some(rest.remove(index))
    }
}

impl Waiters {
    fn push(&self, waiter: Waiter) -> u64 {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        self.entries.borrow_mut().push((id, waiter));
        id
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.borrow().first.is_none()
    }

    /// Shows the wakers, for those who ask who waits.
    pub(crate) fn each_waker(&self, home: u64, visit: &mut dyn FnMut(&Waker)) {
        let entries = self.entries.borrow();
        for (_, waiter) in entries.iter() {
            match waiter {
                Waiter::Wake(awaiter) => awaiter.show(home, &mut *visit),
                Waiter::Member(finished, _) => finished.each_waker(visit),
                Waiter::Callback(_) => {}
            }
        }
    }

    fn take(&self, id: u64) -> Option<Waiter> {
        let taken = self.entries.borrow_mut().take_if(|(other, _)| *other == id);
        taken.map(|(_, waiter)| waiter)
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
    pub(crate) fn register(&self, home: u64, id: &mut Option<u64>, waker: &Waker) {
        if let Some(id) = *id {
            let same =
                |waiter: &mut Waiter| matches!(waiter, Waiter::Wake(kept) if kept.is(home, waker));
            if self.entries.borrow_mut().get_mut(id).is_some_and(same) {
                return;
            }
        }
        // Cloning and dropping a waker is user code: no borrow is held around either.
        let mut new = Some(Awaiter::new(home, waker));
        let old = id.and_then(|id| {
            let mut entries = self.entries.borrow_mut();
            let waiter = entries.get_mut(id)?;
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

    /// Takes out who has waited longest and is to be woken, and the id.
    pub(crate) fn take_first_awaiter(&self) -> Option<(u64, Awaiter)> {
        let wakes = |(_, waiter): &(u64, Waiter)| matches!(waiter, Waiter::Wake(_));
        match self.entries.borrow_mut().take_if(wakes)? {
            (id, Waiter::Wake(awaiter)) => Some((id, awaiter)),
            _ => unreachable!("only a waker is wanted"),
        }
    }

    /// Queues the callbacks and wakes the wakers, in the order in which they came (B-FUT-05). If the
    /// loop is closed, or gone (`None`), callbacks are dropped and wakers still woken. Whether a
    /// callback was dropped.
    pub(crate) fn complete(&self, lp: Option<&LoopRef>) -> bool {
        let Entries { first, rest } = std::mem::take(&mut *self.entries.borrow_mut());
        let mut dropped = false;
        for (_, waiter) in first.into_iter().chain(rest.into_iter().flat_map(|rest| *rest)) {
            dropped |= waiter.complete(lp);
        }
        dropped
    }
}

impl Waiter {
    /// Whether it was a callback that is dropped.
    fn complete(self, lp: Option<&LoopRef>) -> bool {
        match (self, lp) {
            (Waiter::Callback(handle), Some(lp)) if !lp.is_closed() => lp.call_handle(&handle),
            (Waiter::Callback(handle), lp) => {
                match lp {
                    Some(lp) => guard::discard(lp, handle),
                    None => drop(handle),
                }
                return true;
            }
            (Waiter::Wake(Awaiter(AwaiterKind::Task(task))), Some(lp)) => {
                task::schedule(&lp.inner, task)
            }
            (Waiter::Wake(Awaiter(AwaiterKind::Waker(waker))), Some(lp)) => guard::wake(lp, waker),
            (Waiter::Wake(Awaiter(AwaiterKind::Waker(waker))), None) => waker.wake(),
            // It is gone with its loop.
            (Waiter::Wake(Awaiter(AwaiterKind::Task(_))), None) => {}
            (Waiter::Member(finished, member), lp) => finished.add(member, lp),
        }
        false
    }
}

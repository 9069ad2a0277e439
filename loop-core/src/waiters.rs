//! Who waits for an outcome: callbacks and wakers, in one order.

use std::cell::Cell;
use std::mem;
use std::rc::Rc;
use std::slice;
use std::task::Waker;

use loop_handle::Handle;

use crate::finished::Finished;
use crate::guard::{self, Undeterred};
use crate::loop_ref::LoopRef;
use crate::task::{self, Awaiter, AwaiterKind};

/// A done callback, to remove it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallbackId(u64);

/// Who waits, and under which number.
enum Waiter {
    Callback(Number, Handle),
    Wake(Number, Awaiter),
    /// A combinator, which knows this future or task by a number of its own.
    Member(Number, Rc<Finished>, usize),
}

/// A number that fits beside an enum's tag. Of seven bytes there are more than are ever used up.
#[derive(Clone, Copy, Default)]
struct Number([u8; 7]);

impl Number {
    fn new(number: u64) -> Self {
        let [bytes @ .., _] = number.to_le_bytes();
        Number(bytes)
    }

    fn get(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

/// The waiters of one future or task of a loop, whose number is `home` wherever it is asked for. Removing is O(n)
/// in them. They are taken out to be changed or looked at, which no user code does meanwhile: every task has
/// this, and the flag of a `RefCell` is eight bytes.
#[derive(Default)]
pub(crate) struct Waiters(Cell<Entries>);

/// In the order of their numbers.
enum Entries {
    /// Nobody; which number the next one gets.
    Nobody(Number),
    /// Most have one waiter at most, which costs no allocation.
    One(Waiter),
    Many(Box<Many>),
}

struct Many {
    next: u64,
    waiters: Vec<Waiter>,
}

impl Default for Entries {
    fn default() -> Self {
        Entries::Nobody(Number::default())
    }
}

impl Entries {
    fn next(&self) -> u64 {
        match self {
            Entries::Nobody(next) => next.get(),
            Entries::One(waiter) => waiter.number() + 1,
            Entries::Many(many) => many.next,
        }
    }

    /// What is left when everybody has gone.
    fn emptied(&self) -> Self {
        Entries::Nobody(Number::new(self.next()))
    }

    fn as_slice(&self) -> &[Waiter] {
        match self {
            Entries::Nobody(_) => &[],
            Entries::One(waiter) => slice::from_ref(waiter),
            Entries::Many(many) => &many.waiters,
        }
    }

    fn push(&mut self, make: impl FnOnce(Number) -> Waiter) -> u64 {
        let number = self.next();
        let waiter = make(Number::new(number));
        *self = match mem::take(self) {
            Entries::Nobody(_) => Entries::One(waiter),
            Entries::One(first) => {
                Entries::Many(Box::new(Many { next: number + 1, waiters: vec![first, waiter] }))
            }
            Entries::Many(mut many) => {
                many.next = number + 1;
                many.waiters.push(waiter);
                Entries::Many(many)
            }
        };
        number
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Waiter> {
        let waiters = match self {
            Entries::Nobody(_) => &mut [],
            Entries::One(waiter) => slice::from_mut(waiter),
            Entries::Many(many) => &mut *many.waiters,
        };
        waiters.iter_mut().find(|waiter| waiter.number() == number)
    }

    /// Takes out the first one that is wanted.
    fn take_if(&mut self, wanted: impl Fn(&Waiter) -> bool) -> Option<Waiter> {
        let index = self.as_slice().iter().position(wanted)?;
        if let Entries::Many(many) = self {
            return Some(many.waiters.remove(index));
        }
        let emptied = self.emptied();
        match mem::replace(self, emptied) {
            Entries::One(waiter) => Some(waiter),
            Entries::Nobody(_) | Entries::Many(_) => None,
        }
    }
}

impl Waiters {
    /// `f` runs no user code.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut Entries) -> R) -> R {
        let mut entries = self.0.take();
        let result = f(&mut entries);
        // There is nothing to drop in what stood there meanwhile.
        mem::forget(self.0.replace(entries));
        result
    }

    fn push(&self, make: impl FnOnce(Number) -> Waiter) -> u64 {
        self.with(|entries| entries.push(make))
    }

    /// Shows the wakers, for those who ask who waits.
    pub(crate) fn each_waker(&self, home: u64, visit: &mut dyn FnMut(&Waker)) {
        self.with(|entries| {
            for waiter in entries.as_slice() {
                match waiter {
                    Waiter::Wake(_, awaiter) => awaiter.show(home, &mut *visit),
                    Waiter::Member(_, finished, _) => finished.each_waker(visit),
                    Waiter::Callback(..) => {}
                }
            }
        });
    }

    fn take(&self, number: u64) -> Option<Waiter> {
        self.with(|entries| entries.take_if(|waiter| waiter.number() == number))
    }

    pub(crate) fn add_callback(&self, handle: Handle) -> CallbackId {
        CallbackId(self.push(|number| Waiter::Callback(number, handle)))
    }

    /// Notes the end in `finished`, under the number `member`. To be deregistered by what comes back.
    pub(crate) fn add_member(&self, finished: Rc<Finished>, member: usize) -> u64 {
        self.push(|number| Waiter::Member(number, finished, member))
    }

    /// Removes a callback that has not been queued yet.
    pub(crate) fn remove_callback(&self, id: CallbackId) -> bool {
        self.take(id.0).is_some()
    }

    /// Registers a waker, or replaces the one registered under `id` if it wakes another (B-FUT-19).
    pub(crate) fn register(&self, home: u64, id: &mut Option<u64>, waker: &Waker) {
        if let Some(id) = *id {
            let same = |waiter: &mut Waiter| matches!(waiter, Waiter::Wake(_, kept) if kept.is(home, waker));
            if self.with(|entries| entries.get_mut(id).is_some_and(same)) {
                return;
            }
        }
        // Cloning and dropping a waker is user code: nothing is taken out around either.
        let mut new = Some(Awaiter::new(home, waker));
        let old = id.and_then(|id| {
            self.with(|entries| {
                let waiter = entries.get_mut(id)?;
                let new = Waiter::Wake(Number::new(id), new.take()?);
                Some(mem::replace(waiter, new))
            })
        });
        drop(old);
        if let Some(new) = new {
            *id = Some(self.push(|number| Waiter::Wake(number, new)));
        }
    }

    pub(crate) fn deregister(&self, id: u64) {
        let old = self.take(id);
        drop(old);
    }

    /// Takes out who has waited longest and is to be woken, and the id.
    pub(crate) fn take_first_awaiter(&self) -> Option<(u64, Awaiter)> {
        let wakes = |waiter: &Waiter| matches!(waiter, Waiter::Wake(..));
        match self.with(|entries| entries.take_if(wakes))? {
            Waiter::Wake(number, awaiter) => Some((number.get(), awaiter)),
            _ => unreachable!("only a waker is wanted"),
        }
    }

    /// Queues the callbacks and wakes the wakers, in the order in which they came (B-FUT-05). If the
    /// loop is closed, or gone (`None`), callbacks are dropped and wakers still woken. Whether a
    /// callback was dropped.
    ///
    /// # Panics
    /// If a waker or a destructor raises a [`LoopAbort`](crate::LoopAbort), or panics while there is no loop to
    /// report it: when everybody has been told.
    pub(crate) fn complete(&self, lp: Option<&LoopRef>) -> bool {
        let entries = self.with(|entries| {
            let emptied = entries.emptied();
            mem::replace(entries, emptied)
        });
        match entries {
            Entries::Nobody(_) => false,
            Entries::One(waiter) => waiter.complete(lp),
            Entries::Many(many) => {
                let (mut each, mut dropped) = (Undeterred::default(), false);
                for waiter in many.waiters {
                    each.run(|| dropped |= waiter.complete(lp));
                }
                each.finish();
                dropped
            }
        }
    }
}

impl Waiter {
    fn number(&self) -> u64 {
        match self {
            Waiter::Callback(number, _) | Waiter::Wake(number, _) | Waiter::Member(number, ..) => {
                number.get()
            }
        }
    }

    /// Whether it was a callback that is dropped.
    fn complete(self, lp: Option<&LoopRef>) -> bool {
        match (self, lp) {
            (Waiter::Callback(_, handle), Some(lp)) if !lp.is_closed() => lp.call_handle(&handle),
            (Waiter::Callback(_, handle), lp) => {
                match lp {
                    Some(lp) => guard::discard(lp, handle),
                    None => drop(handle),
                }
                return true;
            }
            (Waiter::Wake(_, Awaiter(AwaiterKind::Task(task))), Some(lp)) => {
                task::schedule(&lp.inner, task)
            }
            (Waiter::Wake(_, Awaiter(AwaiterKind::Waker(waker))), Some(lp)) => {
                guard::wake(lp, waker)
            }
            (Waiter::Wake(_, Awaiter(AwaiterKind::Waker(waker))), None) => waker.wake(),
            // It is gone with its loop.
            (Waiter::Wake(_, Awaiter(AwaiterKind::Task(_))), None) => {}
            (Waiter::Member(_, finished, member), lp) => finished.add(member, lp),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(waiters: &Waiters) -> CallbackId {
        waiters.add_callback(Handle::once(|| ()))
    }

    #[test]
    fn a_number_is_not_given_twice() {
        let waiters = Waiters::default();
        let alone = add(&waiters);
        assert!(waiters.remove_callback(alone));
        let first = add(&waiters);
        assert!(!waiters.remove_callback(alone));
        let others = [add(&waiters), add(&waiters)];
        assert!(waiters.remove_callback(others[0]) && !waiters.remove_callback(others[0]));
        assert!(waiters.complete(None), "two were dropped");
        for gone in [alone, first, others[0], others[1]] {
            let last = add(&waiters);
            assert!(!waiters.remove_callback(gone));
            assert!(waiters.remove_callback(last));
        }
    }

    #[test]
    fn they_take_no_more_than_one_who_waits() {
        assert_eq!(mem::size_of::<Waiters>(), 24);
        let most = (1 << 56) - 1;
        assert_eq!(Number::new(most).get(), most);
    }
}

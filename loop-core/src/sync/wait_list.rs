//! The one way in which the primitives of this module wait: a queue whose places can be granted, left
//! and given back, so that no hand-over is ever lost.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use crate::awaited::{self, Awaited, Listing};
use crate::introspect::WaitsFor;
use crate::task::current_task;

enum Place {
    Waiting(Waker),
    /// It has its turn and has not been polled since.
    Granted,
}

/// Waiters, first come first served. Places are numbered in the order of their coming, so that a place is
/// found by binary search; leaving is O(n) in the waiters behind.
pub(crate) struct WaitList {
    /// What it belongs to: "lock".
    kind: &'static str,
    /// Where that was created.
    site: &'static Location<'static>,
    /// Made when somebody first waits.
    shared: OnceCell<Rc<Shared>>,
}

struct Shared {
    kind: &'static str,
    site: &'static Location<'static>,
    places: RefCell<Places>,
    /// Who holds what is waited for, by id, as far as that is noted.
    holder: Cell<Option<u64>>,
    listing: Listing,
}

#[derive(Default)]
struct Places {
    queue: VecDeque<(u64, Place)>,
    next: u64,
    /// How many are still `Waiting`. Those granted stand before them, for grants go in order.
    waiting: usize,
}

impl Places {
    fn find(&self, ticket: u64) -> Option<usize> {
        if self.queue.front().is_some_and(|(number, _)| *number == ticket) {
            return Some(0);
        }
        self.queue.binary_search_by_key(&ticket, |(number, _)| *number).ok()
    }
}

impl Shared {
    /// Takes a place, or replaces what waits there.
    fn place(&self, ticket: &mut Option<u64>, new: Place) -> Option<Place> {
        let mut places = self.places.borrow_mut();
        if let Some(index) = ticket.and_then(|ticket| places.find(ticket)) {
            return Some(std::mem::replace(&mut places.queue[index].1, new));
        }
        let number = places.next;
        places.next += 1;
        places.waiting += 1;
        places.queue.push_back((number, new));
        *ticket = Some(number);
        None
    }
}

impl Awaited for Shared {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        let (kind, site, holder) = (self.kind, self.site, self.holder.get());
        for (_, place) in &self.places.borrow().queue {
            if let Place::Waiting(waker) = place {
                visit(waker, WaitsFor::Object { kind, site, holder });
            }
        }
    }
}

impl WaitList {
    pub(crate) fn new(kind: &'static str, site: &'static Location<'static>) -> Self {
        WaitList { kind, site, shared: OnceCell::new() }
    }

    fn shared(&self) -> &Rc<Shared> {
        self.shared.get_or_init(|| {
            Rc::new(Shared {
                kind: self.kind,
                site: self.site,
                places: RefCell::default(),
                holder: Cell::new(None),
                listing: Listing::new(),
            })
        })
    }

    /// Whether nobody waits or has an unused turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.shared.get().is_none_or(|shared| shared.places.borrow().queue.is_empty())
    }

    /// How many have not had their turn yet.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.get().map_or(0, |shared| shared.places.borrow().waiting)
    }

    /// Notes that the current task holds what is waited for, if anybody cares to know.
    #[inline]
    pub(crate) fn note_held(&self) {
        if awaited::holders_are_noted() {
            self.shared().holder.set(current_task().map(|task| task.id()));
        }
    }

    /// Notes that nobody holds it any more.
    #[inline]
    pub(crate) fn note_released(&self) {
        if let Some(shared) = self.shared.get() {
            shared.holder.set(None);
        }
    }

    /// Gives the first who waits its turn, and wakes it. `false` if nobody waits.
    pub(crate) fn grant(&self) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        let waker = {
            let mut places = shared.places.borrow_mut();
            let granted = places.queue.len() - places.waiting;
            let Some((_, place)) = places.queue.get_mut(granted) else { return false };
            let place = std::mem::replace(place, Place::Granted);
            places.waiting -= 1;
            match place {
                Place::Waiting(waker) => waker,
                Place::Granted => unreachable!("those granted stand before those who wait"),
            }
        };
        waker.wake();
        true
    }

    /// Gives everybody who waits now its turn.
    pub(crate) fn grant_all(&self) {
        for _ in 0..self.waiting() {
            self.grant();
        }
    }

    /// Ready once the place has its turn; takes a place first if there is none.
    fn poll(&self, ticket: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()> {
        if let (Some(number), Some(shared)) = (*ticket, self.shared.get()) {
            let mut places = shared.places.borrow_mut();
            let index = places.find(number);
            match index.map(|index| (index, &places.queue[index].1)) {
                Some((index, Place::Granted)) => {
                    if index == 0 {
                        places.queue.pop_front();
                    } else {
                        places.queue.remove(index);
                    }
                    *ticket = None;
                    return Poll::Ready(());
                }
                Some((_, Place::Waiting(waker))) if waker.will_wake(cx.waker()) => {
                    return Poll::Pending;
                }
                _ => {}
            }
        }
        let shared = self.shared();
        shared.listing.enter(|| Rc::downgrade(shared) as Weak<dyn Awaited>);
        // Cloning and dropping wakers is user code: no borrow is held around either.
        let new = Place::Waiting(cx.waker().clone());
        let old = shared.place(ticket, new);
        drop(old);
        Poll::Pending
    }

    /// Gives up a place. Whether it had a turn that it did not use.
    fn leave(&self, ticket: u64) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        let left = {
            let mut places = shared.places.borrow_mut();
            let Some(index) = places.find(ticket) else { return false };
            let left = places.queue.remove(index);
            if let Some((_, Place::Waiting(_))) = left {
                places.waiting -= 1;
            }
            left
        };
        matches!(left, Some((_, Place::Granted)))
    }
}

/// Waits for a turn. If it is dropped with a turn that it did not use, `give_back` passes that on.
pub(crate) struct Turn<'a, G: FnMut()> {
    list: &'a WaitList,
    ticket: Option<u64>,
    give_back: G,
}

impl<'a, G: FnMut()> Turn<'a, G> {
    pub(crate) fn new(list: &'a WaitList, give_back: G) -> Self {
        Turn { list, ticket: None, give_back }
    }
}

impl<G: FnMut() + Unpin> Turn<'_, G> {
    /// Takes a place now, before the first wait.
    pub(crate) async fn enter(&mut self) {
        std::future::poll_fn(|cx| {
            // A place just taken has no turn yet.
            let _ = self.list.poll(&mut self.ticket, cx);
            Poll::Ready(())
        })
        .await
    }
}

impl<G: FnMut() + Unpin> Future for Turn<'_, G> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Turn { list, ticket, .. } = self.get_mut();
        list.poll(ticket, cx)
    }
}

impl<G: FnMut()> Drop for Turn<'_, G> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            if self.list.leave(ticket) {
                (self.give_back)();
            }
        }
    }
}

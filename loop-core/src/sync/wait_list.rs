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
use crate::current;
use crate::guard::Undeterred;
use crate::introspect::WaitsFor;
use crate::task::{Awaiter, current_task};

/// A place: places are numbered from 1 in the order of their coming. [`NO_PLACE`] is none.
type Ticket = u64;

const NO_PLACE: Ticket = 0;

/// Waiters, first come first served. Turns go in the order of the places, so that a comparison tells whether
/// a place has had its turn; leaving before that is O(n) in the waiters behind.
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
    /// The loop whose tasks wait by number: the one that ran when somebody first waited.
    home: u64,
    /// Those who wait, by place.
    queue: RefCell<VecDeque<(Ticket, Awaiter)>>,
    /// The place that was taken last.
    last: Cell<Ticket>,
    /// All places up to this one have their turn, or were left.
    granted: Cell<Ticket>,
    /// How many have their turn and have not been polled since.
    unused: Cell<usize>,
    /// Who holds what is waited for, by id, as far as that is noted.
    holder: Cell<Option<u64>>,
    listing: Listing,
}

impl Shared {
    /// Where a place stands in the queue.
    fn find(queue: &VecDeque<(Ticket, Awaiter)>, ticket: Ticket) -> Option<usize> {
        queue.binary_search_by_key(&ticket, |(number, _)| *number).ok()
    }

    /// Uses up the turn of a place, if it has it.
    #[inline]
    fn use_turn(&self, ticket: Ticket) -> bool {
        let granted = ticket <= self.granted.get();
        if granted {
            self.unused.set(self.unused.get() - 1);
        }
        granted
    }

    /// Takes the next place.
    #[inline]
    fn enter(&self, awaiter: Awaiter) -> Ticket {
        let ticket = self.last.get() + 1;
        self.last.set(ticket);
        self.queue.borrow_mut().push_back((ticket, awaiter));
        ticket
    }

    /// Sees to it that whoever waits at a place is woken by `waker`.
    #[inline(never)]
    fn update(&self, ticket: Ticket, waker: &Waker) {
        let same = {
            let queue = self.queue.borrow();
            Self::find(&queue, ticket).is_none_or(|index| queue[index].1.is(self.home, waker))
        };
        if same {
            return;
        }
        // Cloning and dropping wakers is user code: no borrow is held around either.
        let mut awaiter = Awaiter::new(self.home, waker);
        let mut queue = self.queue.borrow_mut();
        if let Some(index) = Self::find(&queue, ticket) {
            std::mem::swap(&mut queue[index].1, &mut awaiter);
        }
        drop(queue);
        drop(awaiter);
    }

    /// Gives the first who waits its turn, if it came no later than `last`, and wakes it.
    #[inline]
    fn grant(&self, last: Ticket) -> bool {
        let awaiter = {
            let mut queue = self.queue.borrow_mut();
            if queue.front().is_none_or(|(ticket, _)| *ticket > last) {
                return false;
            }
            let Some((ticket, awaiter)) = queue.pop_front() else { return false };
            self.granted.set(ticket);
            awaiter
        };
        self.unused.set(self.unused.get() + 1);
        awaiter.wake(self.home);
        true
    }

    /// Gives their turn to all who came no later than `last`. A waker that panics does not keep the others from
    /// theirs.
    #[inline(never)]
    fn grant_each(&self, last: Ticket) {
        let mut wakes = Undeterred::default();
        let mut more = true;
        while more && self.granted.get() < last {
            // One whose waker panics has been granted.
            wakes.run(|| more = self.grant(last));
        }
        wakes.finish();
    }
}

impl Awaited for Shared {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        let (kind, site, holder) = (self.kind, self.site, self.holder.get());
        for (_, awaiter) in &*self.queue.borrow() {
            awaiter.show(self.home, |waker| {
                visit(waker, WaitsFor::Object { kind, site, holder });
            });
        }
    }
}

impl WaitList {
    pub(crate) fn new(kind: &'static str, site: &'static Location<'static>) -> Self {
        WaitList { kind, site, shared: OnceCell::new() }
    }

    #[inline]
    fn shared(&self) -> &Rc<Shared> {
        self.shared.get_or_init(|| self.make_shared())
    }

    #[cold]
    fn make_shared(&self) -> Rc<Shared> {
        let shared = Rc::new(Shared {
            kind: self.kind,
            site: self.site,
            home: current::running().map_or(0, |inner| inner.id),
            queue: RefCell::default(),
            last: Cell::new(NO_PLACE),
            granted: Cell::new(NO_PLACE),
            unused: Cell::new(0),
            holder: Cell::new(None),
            listing: Listing::new(),
        });
        shared.listing.enter(|| Rc::downgrade(&shared) as Weak<dyn Awaited>);
        shared
    }

    /// Whether nobody waits or has an unused turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.shared.get().is_none_or(|shared| shared.unused.get() == 0)
    }

    /// How many have not had their turn yet.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.get().map_or(0, |shared| shared.queue.borrow().len())
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
        self.shared.get().is_some_and(|shared| shared.grant(Ticket::MAX))
    }

    /// Gives everybody who waits now its turn.
    ///
    /// # Panics
    /// If a waker does, when everybody has it.
    pub(crate) fn grant_all(&self) {
        if let Some(shared) = self.shared.get() {
            let last = shared.last.get();
            if shared.queue.borrow().len() > 1 {
                shared.grant_each(last);
            } else if shared.granted.get() < last {
                shared.grant(last);
            }
        }
    }

    /// Ready once the place has its turn; takes a place first if there is none.
    #[inline]
    fn poll(&self, ticket: &mut Ticket, cx: &mut Context<'_>) -> Poll<()> {
        if *ticket != NO_PLACE && self.shared().use_turn(*ticket) {
            *ticket = NO_PLACE;
            return Poll::Ready(());
        }
        *ticket = self.wait(*ticket, cx.waker());
        Poll::Pending
    }

    /// Has `waker` wait at this place, or at the next if this is none. Which place it is.
    #[inline(never)]
    fn wait(&self, ticket: Ticket, waker: &Waker) -> Ticket {
        let shared = self.shared();
        if ticket == NO_PLACE {
            // Cloning a waker is user code: no borrow is held.
            return shared.enter(Awaiter::new(shared.home, waker));
        }
        shared.update(ticket, waker);
        ticket
    }

    /// Gives up a place. Whether it had a turn that it did not use.
    fn leave(&self, ticket: Ticket) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        if shared.use_turn(ticket) {
            return true;
        }
        let left = {
            let mut queue = shared.queue.borrow_mut();
            Shared::find(&queue, ticket).and_then(|index| queue.remove(index))
        };
        drop(left);
        false
    }
}

/// Waits for a turn. If it is dropped with a turn that it did not use, `give_back` passes that on.
pub(crate) struct Turn<'a, G: FnMut()> {
    list: &'a WaitList,
    ticket: Ticket,
    give_back: G,
}

impl<'a, G: FnMut()> Turn<'a, G> {
    pub(crate) fn new(list: &'a WaitList, give_back: G) -> Self {
        Turn { list, ticket: NO_PLACE, give_back }
    }
}

impl<G: FnMut()> Turn<'_, G> {
    #[inline]
    pub(crate) fn has_place(&self) -> bool {
        self.ticket != NO_PLACE
    }

    /// As `poll`.
    #[inline]
    pub(crate) fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.list.poll(&mut self.ticket, cx)
    }

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
        self.get_mut().poll_now(cx)
    }
}

impl<G: FnMut()> Drop for Turn<'_, G> {
    fn drop(&mut self) {
        if self.ticket != NO_PLACE && self.list.leave(self.ticket) {
            (self.give_back)();
        }
    }
}

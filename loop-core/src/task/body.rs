//! What a task runs, in memory that serves again.

use std::any::Any;
use std::future::Future;
use std::mem::size_of_val;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use loop_handle::Snapshot;
use pin_project_lite::pin_project;

use super::cell::TaskKey;
use super::gear::{Gear, Stepped};
use super::hook::TaskBody;
use super::join::Join;
use super::step::{Advance, Lent};
use crate::inner::Inner;

/// A future without its type.
pub(crate) trait Body {
    /// One step of the task. A [`RootBody`] stands for the root that is lent.
    fn step(self: Pin<&mut Self>, inner: &Inner, key: TaskKey, lent: &mut Lent<'_, '_>) -> Stepped;

    fn gear(&self) -> &Gear;

    fn gear_mut(self: Pin<&mut Self>) -> &mut Gear;

    /// Whether a panic of `step` came from the destructor of a future that had ended.
    fn has_ended(&self) -> bool;

    /// Drops the future: a user's value.
    fn clear(self: Pin<&mut Self>);

    /// Takes over what a [`Fresh`] of the type that this memory was made for holds.
    fn refill(self: Pin<&mut Self>, fresh: &mut dyn Any) -> bool;
}

pub(crate) type AnyBody = Pin<Box<dyn Body>>;

pin_project! {
    /// A user's future. Its output is left where the task's handles find it.
    pub(crate) struct Filled<F> {
        #[pin]
        future: Option<F>,
        gear: Gear,
    }
}

/// A future for a body to take over.
pub(crate) struct Fresh<F> {
    future: Option<F>,
    values: Snapshot,
}

impl<F> Fresh<F> {
    /// In a copy of the current context.
    pub(crate) fn new(future: F) -> Self {
        Fresh { future: Some(future), values: Snapshot::current() }
    }

    pub(crate) fn into_body(self) -> Filled<F> {
        Filled { future: self.future, gear: Gear::new(self.values) }
    }
}

impl<F: Future + 'static> Body for Filled<F> {
    fn step(self: Pin<&mut Self>, inner: &Inner, key: TaskKey, lent: &mut Lent<'_, '_>) -> Stepped {
        let mut this = self.project();
        this.gear.step(inner, key, lent, |cx| {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                return Poll::Ready(Stepped::Ended);
            };
            let value = ready!(future.poll(cx));
            // While the future is still there.
            inner.tasks.borrow().leave(key, value);
            this.future.set(None);
            Poll::Ready(Stepped::Ended)
        })
    }

    fn gear(&self) -> &Gear {
        &self.gear
    }

    fn gear_mut(self: Pin<&mut Self>) -> &mut Gear {
        self.project().gear
    }

    fn has_ended(&self) -> bool {
        self.future.is_none()
    }

    fn clear(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }

    fn refill(self: Pin<&mut Self>, fresh: &mut dyn Any) -> bool {
        let Some(fresh) = fresh.downcast_mut::<Fresh<F>>() else { return false };
        let mut this = self.project();
        this.future.set(fresh.future.take());
        this.gear.values = std::mem::take(&mut fresh.values);
        true
    }
}

pin_project! {
    /// What a spawn hook is given to wrap: a user's future that leaves its output itself.
    pub(crate) struct Leaving<F: Future> {
        #[pin]
        future: F,
        join: Option<Rc<Join<F::Output>>>,
    }
}

impl<F: Future> Leaving<F> {
    pub(crate) fn new(future: F, join: Rc<Join<F::Output>>) -> Self {
        Leaving { future, join: Some(join) }
    }
}

impl<F: Future> Future for Leaving<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if let Some(join) = &*this.join {
            let value = ready!(this.future.poll(cx));
            join.leave(value);
            *this.join = None;
        }
        Poll::Ready(())
    }
}

/// What a spawn hook made of a body.
pub(crate) struct Hooked {
    body: Option<TaskBody>,
    gear: Gear,
}

impl Hooked {
    /// In a copy of the current context.
    pub(crate) fn new(body: TaskBody) -> Self {
        Hooked { body: Some(body), gear: Gear::new(Snapshot::current()) }
    }
}

impl Body for Hooked {
    fn step(self: Pin<&mut Self>, inner: &Inner, key: TaskKey, lent: &mut Lent<'_, '_>) -> Stepped {
        let Hooked { body, gear } = self.get_mut();
        gear.step(inner, key, lent, |cx| match body {
            Some(body) => body.as_mut().poll(cx).map(|()| Stepped::Left),
            None => Poll::Ready(Stepped::Ended),
        })
    }

    fn gear(&self) -> &Gear {
        &self.gear
    }

    fn gear_mut(self: Pin<&mut Self>) -> &mut Gear {
        &mut self.get_mut().gear
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn clear(mut self: Pin<&mut Self>) {
        self.body = None;
    }

    fn refill(self: Pin<&mut Self>, _: &mut dyn Any) -> bool {
        false
    }
}

/// Stands for the future of a run, which stays with its caller, as do its panics.
pub(crate) struct RootBody(Gear);

impl RootBody {
    /// In a copy of the current context.
    pub(crate) fn new() -> Self {
        RootBody(Gear::new(Snapshot::current()))
    }
}

impl Body for RootBody {
    fn step(
        mut self: Pin<&mut Self>,
        inner: &Inner,
        key: TaskKey,
        lent: &mut Lent<'_, '_>,
    ) -> Stepped {
        let Lent { root, waker, .. } = lent;
        let Some(root) = root.as_mut().filter(|root| root.key == key) else {
            return Stepped::Waits;
        };
        let poll = |cx: &mut Context<'_>| (root.advance)(Advance::Poll(cx));
        let (polled, woken) = self.0.run(inner, key, waker, poll);
        Stepped::new(polled.map(|()| Stepped::Left), woken)
    }

    fn gear(&self) -> &Gear {
        &self.0
    }

    fn gear_mut(self: Pin<&mut Self>) -> &mut Gear {
        &mut self.get_mut().0
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn clear(self: Pin<&mut Self>) {}

    fn refill(self: Pin<&mut Self>, _: &mut dyn Any) -> bool {
        false
    }
}

/// How many bodies are kept: what ends in one turn of a busy loop.
const MOST_KEPT: usize = 1_024;

/// Larger ones are given back to the allocator.
const LARGEST_KEPT: usize = 512;

/// Bodies whose future is gone, the memory of which serves for new ones: allocating and freeing is most of
/// what a short task costs. Only the one that came back last is looked at; if it was made for another
/// type, its memory is freed.
#[derive(Default)]
pub(crate) struct SpareBodies(Vec<AnyBody>);

impl SpareBodies {
    pub(crate) fn pop(&mut self) -> Option<AnyBody> {
        self.0.pop()
    }

    pub(crate) fn keep(&mut self, body: AnyBody) {
        if self.0.len() < MOST_KEPT && size_of_val(&*body) <= LARGEST_KEPT {
            self.0.push(body);
        }
    }
}

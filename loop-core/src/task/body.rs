//! What a task runs, in memory that serves again.

use std::any::Any;
use std::future::Future;
use std::mem::size_of_val;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::gear::Ended;
use super::hook::TaskBody;
use super::join::{self, AnyJoin};
use super::step::{Advance, Beside, Outlet};

/// A future without its type.
pub(crate) trait Body {
    /// Polls, for how it has ended if it has. A panic is caught here, inside the task's context, so that what was
    /// written before it is kept; that of a [`RootBody`], which stands for the root that is lent, is its caller's.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>, beside: &mut Beside<'_, '_>)
    -> Poll<Ended>;

    /// Whether a panic of `poll` came from the destructor of a future that had ended.
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
    }
}

/// A future for a body to take over.
pub(crate) struct Fresh<F>(Option<F>);

impl<F> Fresh<F> {
    pub(crate) fn new(future: F) -> Self {
        Fresh(Some(future))
    }

    pub(crate) fn into_body(self) -> Filled<F> {
        Filled { future: self.0 }
    }
}

impl<F: Future + 'static> Body for Filled<F> {
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        beside: &mut Beside<'_, '_>,
    ) -> Poll<Ended> {
        let mut this = self.project();
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                return Poll::Ready(Ended::Quietly);
            };
            // The one place where it is polled, so that it is inlined.
            let value = ready!(future.poll(cx));
            Poll::Ready(finish(this.future, value, beside))
        }));
        caught.unwrap_or_else(|payload| beside.keep(payload))
    }

    fn has_ended(&self) -> bool {
        self.future.is_none()
    }

    fn clear(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }

    fn refill(self: Pin<&mut Self>, fresh: &mut dyn Any) -> bool {
        let Some(fresh) = fresh.downcast_mut::<Fresh<F>>() else { return false };
        self.project().future.set(fresh.0.take());
        true
    }
}

/// Leaves what a future has returned, while it is still there, and then drops it.
#[inline(never)]
fn finish<F>(mut future: Pin<&mut Option<F>>, value: F::Output, beside: &Beside<'_, '_>) -> Ended
where
    F: Future + 'static,
{
    match beside.outlet {
        Outlet::Stepped(inner) => inner.tasks.borrow().leave(beside.key, value),
        Outlet::Hooked(join) => {
            join::leave(join, value);
            // It goes with the hook's future.
            return Ended::Left;
        }
    }
    future.set(None);
    Ended::Quietly
}

pin_project! {
    /// What a spawn hook is given to wrap: a user's future that leaves its output itself.
    pub(crate) struct Leaving<F> {
        #[pin]
        body: Filled<F>,
        join: Option<Rc<dyn AnyJoin>>,
    }
}

impl<F> Leaving<F> {
    pub(crate) fn new(future: F, join: Rc<dyn AnyJoin>) -> Self {
        Leaving { body: Fresh::new(future).into_body(), join: Some(join) }
    }
}

impl<F: Future + 'static> Future for Leaving<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if let Some(join) = &*this.join {
            let panic = {
                let mut root = None;
                let mut beside = Beside::new(Outlet::Hooked(&**join), &mut root);
                ready!(Body::poll(this.body, cx, &mut beside));
                beside.take_panic()
            };
            if let Some(payload) = panic {
                panic::resume_unwind(payload);
            }
            *this.join = None;
        }
        Poll::Ready(())
    }
}

/// What a spawn hook made of a body.
pub(crate) struct Hooked(Option<TaskBody>);

impl Hooked {
    pub(crate) fn new(body: TaskBody) -> Self {
        Hooked(Some(body))
    }
}

impl Body for Hooked {
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        beside: &mut Beside<'_, '_>,
    ) -> Poll<Ended> {
        let caught = panic::catch_unwind(AssertUnwindSafe(|| match &mut self.0 {
            Some(body) => body.as_mut().poll(cx).map(|()| Ended::Left),
            None => Poll::Ready(Ended::Quietly),
        }));
        caught.unwrap_or_else(|payload| beside.keep(payload))
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn clear(mut self: Pin<&mut Self>) {
        self.0 = None;
    }

    fn refill(self: Pin<&mut Self>, _: &mut dyn Any) -> bool {
        false
    }
}

/// Stands for the future of a run, which stays with its caller, as do its panics.
pub(crate) struct RootBody;

impl Body for RootBody {
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        beside: &mut Beside<'_, '_>,
    ) -> Poll<Ended> {
        let Some(root) = beside.root.as_mut().filter(|root| root.key == beside.key) else {
            return Poll::Pending;
        };
        (root.advance)(Advance::Poll(cx)).map(|()| Ended::Left)
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

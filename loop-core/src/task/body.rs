//! What a task runs, in memory that serves again.

use std::any::Any;
use std::future::Future;
use std::mem::size_of;
use std::panic::{self, AssertUnwindSafe, Location};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::gear::Ended;
use super::hook::TaskBody;
use super::join::Join;
use super::step::{Advance, Beside};

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
    fn refill(self: Pin<&mut Self>, _fresh: &mut dyn Any) {}

    /// How many bytes would serve again; so many, if none can, that they are given back.
    fn weight(&self) -> usize {
        usize::MAX
    }
}

pub(crate) type AnyBody = Pin<Box<dyn Body>>;

pin_project! {
    /// A user's future, and where it leaves its output for the task's handles to find. When it is spare, that is
    /// what is left of the task before.
    pub(crate) struct Filled<F: Future> {
        #[pin]
        future: Option<F>,
        join: Rc<Join<F::Output>>,
    }
}

/// What a body is to take over.
pub(crate) struct Fresh<F: Future> {
    pub(crate) future: Option<F>,
    pub(crate) site: &'static Location<'static>,
    pub(crate) name: Option<Rc<str>>,
    /// What it has made of that.
    pub(crate) join: Option<Rc<Join<F::Output>>>,
}

impl<F: Future> Fresh<F> {
    pub(crate) fn into_body(self, join: Rc<Join<F::Output>>) -> Filled<F> {
        Filled { future: self.future, join }
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
            this.join.leave(value);
            if beside.hooked {
                // It goes with the hook's future.
                return Poll::Ready(Ended::Left);
            }
            this.future.set(None);
            Poll::Ready(Ended::Quietly)
        }));
        caught.unwrap_or_else(|payload| beside.keep(payload))
    }

    fn has_ended(&self) -> bool {
        self.future.is_none()
    }

    fn clear(self: Pin<&mut Self>) {
        self.project().future.set(None);
    }

    fn refill(self: Pin<&mut Self>, fresh: &mut dyn Any) {
        let Some(fresh) = fresh.downcast_mut::<Fresh<F>>() else { return };
        let mut this = self.project();
        this.future.set(fresh.future.take());
        Join::renew(this.join, fresh.site, fresh.name.take());
        fresh.join = Some(this.join.clone());
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + size_of::<Join<F::Output>>()
    }
}

pin_project! {
    /// What a spawn hook is given to wrap: a user's future that leaves its output itself.
    pub(crate) struct Leaving<F: Future> {
        #[pin]
        body: Filled<F>,
        left: bool,
    }
}

impl<F: Future> Leaving<F> {
    pub(crate) fn new(future: F, join: Rc<Join<F::Output>>) -> Self {
        Leaving { body: Filled { future: Some(future), join }, left: false }
    }
}

impl<F: Future + 'static> Future for Leaving<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if !*this.left {
            let panic = {
                let mut root = None;
                let mut beside = Beside::new(&mut root);
                beside.hooked = true;
                ready!(Body::poll(this.body, cx, &mut beside));
                beside.take_panic()
            };
            if let Some(payload) = panic {
                panic::resume_unwind(payload);
            }
            *this.left = true;
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
        if self.0.len() < MOST_KEPT && body.weight() <= LARGEST_KEPT {
            self.0.push(body);
        }
    }
}

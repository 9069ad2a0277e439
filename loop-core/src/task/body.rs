//! What a task runs, in memory that serves again.

use std::any::Any;
use std::future::Future;
use std::mem::size_of_val;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::hook::TaskBody;
use super::join::{Join, Outcome};

/// A future without its type.
pub(crate) trait Body {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops the future: a user's value.
    fn clear(self: Pin<&mut Self>);

    /// Takes over an `Option<F>` and the `Join` it belongs to, if they are of the types that this memory
    /// was made for.
    fn refill(self: Pin<&mut Self>, future: &mut dyn Any, join: &dyn Any) -> bool;
}

pub(crate) type AnyBody = Pin<Box<dyn Body>>;

pin_project! {
    /// A user's future that leaves its output where the task's handles find it.
    pub(crate) struct Filled<F: Future> {
        #[pin]
        future: Option<F>,
        join: Option<Rc<Join<F::Output>>>,
    }
}

impl<F: Future> Filled<F> {
    pub(crate) fn new(future: F, join: Rc<Join<F::Output>>) -> Self {
        Filled { future: Some(future), join: Some(join) }
    }
}

impl<F: Future> Future for Filled<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let (Some(future), Some(join)) = (this.future.as_pin_mut(), this.join) else {
            return Poll::Ready(());
        };
        let value = ready!(future.poll(cx));
        *join.outcome.borrow_mut() = Outcome::Value(value);
        Poll::Ready(())
    }
}

impl<F: Future + 'static> Body for Filled<F> {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }

    fn clear(self: Pin<&mut Self>) {
        let mut this = self.project();
        *this.join = None;
        this.future.set(None);
    }

    fn refill(self: Pin<&mut Self>, future: &mut dyn Any, join: &dyn Any) -> bool {
        let (Some(future), Some(join)) =
            (future.downcast_mut::<Option<F>>(), join.downcast_ref::<Rc<Join<F::Output>>>())
        else {
            return false;
        };
        let mut this = self.project();
        this.future.set(future.take());
        *this.join = Some(join.clone());
        true
    }
}

/// What a spawn hook made of a body.
pub(crate) struct Hooked(pub(crate) Option<TaskBody>);

impl Body for Hooked {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(body) => body.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }

    fn clear(mut self: Pin<&mut Self>) {
        self.0 = None;
    }

    fn refill(self: Pin<&mut Self>, _: &mut dyn Any, _: &dyn Any) -> bool {
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

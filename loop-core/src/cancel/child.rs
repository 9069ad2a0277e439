//! The children of a group, and what they tell it.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;
use slab::Slab;

use super::binding::Place;
use super::cancelled::raise;
use crate::awaited::{Awaited, Listing};
use crate::error::PanicError;
use crate::guard;
use crate::introspect::WaitsFor;
use crate::loop_ref::LoopRef;
use crate::one_waiter::OneWaiter;
use crate::report::ExceptionContext;
use crate::task::TaskRef;

/// Why a child of a [`TaskGroup`](crate::TaskGroup), or its body, failed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ChildError<E> {
    /// With its own error.
    Failed(E),
    /// With a panic.
    Panicked(PanicError),
}

impl<E: fmt::Display> fmt::Display for ChildError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildError::Failed(error) => error.fmt(f),
            ChildError::Panicked(panic) => panic.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for ChildError<E> {}

impl<E: fmt::Debug + fmt::Display + Send + Sync + 'static> From<ChildError<E>> for io::Error {
    fn from(error: ChildError<E>) -> io::Error {
        io::Error::other(error)
    }
}

/// What failed in a [`TaskGroup`](crate::TaskGroup); asyncio's exception group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GroupError<E> {
    /// The errors, in the order in which they came. None if the group was
    /// [cancelled](crate::TaskGroup::cancel) and that left no value.
    pub errors: Vec<ChildError<E>>,
}

impl<E: fmt::Display> fmt::Display for GroupError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.errors.split_first() else {
            return f.write_str("the task group was cancelled");
        };
        write!(f, "the task group failed: {first}")?;
        others.iter().try_for_each(|other| write!(f, "; {other}"))
    }
}

impl<E: fmt::Debug + fmt::Display> Error for GroupError<E> {}

impl<E: fmt::Debug + fmt::Display + Send + Sync + 'static> From<GroupError<E>> for io::Error {
    fn from(error: GroupError<E>) -> io::Error {
        io::Error::other(error)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Open,
    /// Everybody was asked to end.
    Ending,
    /// The scope is done or gone.
    Over,
}

/// What a group's scope, its handles and its children share.
pub(super) struct Shared<E> {
    phase: Cell<Phase>,
    /// `None` while a child is being started.
    children: RefCell<Slab<Option<TaskRef>>>,
    errors: RefCell<Vec<ChildError<E>>>,
    /// The scope's, in the tree of its task.
    place: RefCell<Option<Place>>,
    /// The scope's task, while it waits for the others.
    waiter: OneWaiter,
    listing: Listing,
}

impl<E> Awaited for Shared<E> {
    /// For its children.
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        let children = self.children.borrow();
        self.waiter.show(|waker| {
            for child in children.iter().filter_map(|(_, child)| child.as_ref()) {
                visit(waker, WaitsFor::Task(child.id()));
            }
        });
    }
}

impl<E> Shared<E> {
    pub(super) fn new() -> Self {
        Shared {
            phase: Cell::new(Phase::Open),
            children: RefCell::default(),
            errors: RefCell::default(),
            place: RefCell::default(),
            waiter: OneWaiter::default(),
            listing: Listing::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.children.borrow().len()
    }

    pub(super) fn is_ending(&self) -> bool {
        self.phase.get() == Phase::Ending
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase.get() == Phase::Over
    }

    pub(super) fn set_place(&self, place: Option<Place>) {
        *self.place.borrow_mut() = place;
    }

    /// A place for a child; `None` if the group takes no more.
    pub(super) fn reserve(&self) -> Option<usize> {
        let open = self.phase.get() == Phase::Open;
        open.then(|| self.children.borrow_mut().insert(None))
    }

    pub(super) fn admit(&self, number: usize, task: TaskRef) {
        let mut children = self.children.borrow_mut();
        let Some(place) = children.get_mut(number) else { return };
        *place = Some(task.clone());
        drop(children);
        // It, or another, may have ended the group before it was known.
        if self.phase.get() != Phase::Open {
            task.cancel();
        }
    }

    /// Asks everybody to end, once.
    pub(super) fn end(&self) {
        self.end_others(None);
    }

    fn end_others(&self, except: Option<usize>) {
        if self.phase.get() != Phase::Open {
            return;
        }
        self.phase.set(Phase::Ending);
        self.each(except, |child| _ = child.cancel());
        let place = self.place.borrow().clone();
        if let Some(place) = place {
            place.ask();
        }
        self.wake();
    }

    fn each(&self, except: Option<usize>, ask: impl Fn(&TaskRef)) {
        let children: Vec<TaskRef> = self
            .children
            .borrow()
            .iter()
            .filter(|(number, _)| Some(*number) != except)
            .filter_map(|(_, child)| child.clone())
            .collect();
        children.iter().for_each(ask);
    }

    fn wake(&self) {
        self.waiter.wake(LoopRef::try_current().as_ref());
    }

    pub(super) fn wake_when_empty(self: &Rc<Self>, cx: &Context<'_>)
    where
        E: 'static,
    {
        self.listing.enter(|| Rc::downgrade(self) as Weak<dyn Awaited>);
        self.waiter.wait(cx.waker());
    }

    fn ended(&self, number: usize) {
        let (child, last) = {
            let mut children = self.children.borrow_mut();
            (children.remove(number), children.is_empty())
        };
        drop(child);
        if last {
            self.wake();
        }
    }

    /// The scope is done: nobody is left, and nobody may come.
    pub(super) fn finish(&self) -> Vec<ChildError<E>> {
        self.phase.set(Phase::Over);
        self.errors.take()
    }
}

impl<E: fmt::Debug> Shared<E> {
    /// The scope is dropped: its children are cancelled, and nobody waits, nor reads what came so far.
    pub(super) fn abandon(&self) {
        if self.phase.replace(Phase::Over) == Phase::Open {
            self.each(None, |child| _ = child.cancel());
        }
        let errors = self.errors.take();
        errors.iter().for_each(report_late);
    }

    /// Notes an error, of the child with this number or of the body, and ends the group.
    pub(super) fn fail(&self, error: ChildError<E>, child: Option<usize>) {
        if self.is_over() {
            return report_late(&error);
        }
        self.errors.borrow_mut().push(error);
        self.end_others(child);
    }

    /// Aborts what has not ended in time, and tells of it.
    pub(super) fn abort(&self, body: bool) {
        let mut names = Vec::new();
        if body {
            names.push("the body".to_owned());
        }
        let named = RefCell::new(names);
        self.each(None, |child| {
            named.borrow_mut().push(child.name().to_string());
            child.abort();
        });
        let names = named.into_inner().join(", ");
        if let Some(lp) = LoopRef::try_current() {
            let context = ExceptionContext::warning("a task group did not end in time: aborted");
            guard::report(&lp, context.with_subject(names));
        }
    }
}

/// An error that no scope waits for (B-TG-17, B-TG-19).
fn report_late<E: fmt::Debug>(error: &ChildError<E>) {
    let Some(lp) = LoopRef::try_current() else { return };
    let rendered = guard::catch_panic(|| format!("{error:?}"));
    let context = ExceptionContext::new("a task failed after its group was gone");
    let subject = rendered.unwrap_or_else(|panic| format!("formatting it failed: {panic}"));
    guard::report(&lp, context.with_subject(subject));
}

pin_project! {
    /// The body of a child.
    pub(super) struct Child<F, E: 'static> {
        #[pin]
        future: Option<F>,
        // Behind the future: the child has ended when all of it is gone.
        member: Member<E>,
    }
}

struct Member<E: 'static> {
    shared: Rc<Shared<E>>,
    number: Option<usize>,
}

impl<E: 'static> Drop for Member<E> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.ended(number);
        }
    }
}

impl<F, E: 'static> Child<F, E> {
    pub(super) fn new(future: F, shared: Rc<Shared<E>>, number: Option<usize>) -> Self {
        // One that the group does not take is not to be polled, not even eagerly.
        let future = number.map(|_| future);
        Child { future, member: Member { shared, number } }
    }
}

impl<T, F, E> Future for Child<F, E>
where
    F: Future<Output = Result<T, E>>,
    E: fmt::Debug + 'static,
{
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut this = self.project();
        // A child that has failed waits for the end of its task.
        let Some(future) = this.future.as_mut().as_pin_mut() else { return Poll::Pending };
        let error = match guard::catch_panic(|| future.poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(Ok(value))) => return Poll::Ready(value),
            Ok(Poll::Ready(Err(error))) => ChildError::Failed(error),
            Err(panic) => ChildError::Panicked(panic),
        };
        this.future.set(None);
        this.member.shared.fail(error, this.member.number);
        raise(Some(Arc::from("it failed; its group has the error")));
        Poll::Pending
    }
}

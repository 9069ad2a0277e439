//! What a task shares with its handles: the outcome, and who waits for it.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loop_handle::Handle;

use super::cell::TaskKey;
use super::request::Requests;
use super::state::{CANCELLED, DONE, LEFT, ROOT, TAKEN, UNHANDLED, WAITED};
use super::unread::ErasedAsError;
use crate::error::TaskError;
use crate::guard;
use crate::inner::Inner;
use crate::loop_ref::LoopRef;
use crate::waiters::{CallbackId, Waiters};

/// Numbers default names, process-wide (B-TASK-06). The part that a [`TaskKey`] has of it is never zero.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    loop {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        if id as u32 != 0 {
            return id;
        }
    }
}

/// The part that does not depend on the output's type.
pub(crate) struct Header {
    pub(crate) id: u64,
    /// Its slot in the task table.
    pub(super) index: Cell<u32>,
    pub(crate) home: Weak<Inner>,
    pub(crate) site: &'static Location<'static>,
    flags: Cell<u16>,
    seldom: OnceCell<Box<Seldom>>,
    waiters: Waiters,
}

/// What few tasks have.
#[derive(Default)]
pub(crate) struct Seldom {
    name: RefCell<Option<Rc<str>>>,
    pub(crate) requests: Requests,
    /// Why there is no value.
    error: Cell<Option<TaskError>>,
    /// With `TELLS_ERRORS`.
    pub(super) as_error: Cell<Option<ErasedAsError>>,
}

impl Seldom {
    fn named(name: Option<Rc<str>>) -> OnceCell<Box<Seldom>> {
        let seldom = OnceCell::new();
        if name.is_some() {
            let named = Seldom { name: RefCell::new(name), ..Seldom::default() };
            // It is empty, so this succeeds.
            _ = seldom.set(Box::new(named));
        }
        seldom
    }
}

impl Header {
    pub(crate) fn new(
        inner: &Rc<Inner>,
        site: &'static Location<'static>,
        name: Option<Rc<str>>,
        flags: u16,
    ) -> Self {
        Header {
            id: next_id(),
            index: Cell::new(u32::MAX),
            home: Rc::downgrade(inner),
            site,
            flags: Cell::new(flags),
            seldom: Seldom::named(name),
            waiters: Waiters::default(),
        }
    }

    /// Makes the header of a task that has ended, of the same loop, that of a new one.
    fn renew(&mut self, site: &'static Location<'static>, name: Option<Rc<str>>) {
        self.id = next_id();
        self.site = site;
        self.flags = Cell::new(0);
        self.seldom = Seldom::named(name);
    }

    /// What the task is known by in its loop. Before it is in the table, this is no task's.
    pub(crate) fn key(&self) -> TaskKey {
        TaskKey::new(self.index.get(), self.id)
    }

    /// What few tasks have, if this one has any of it.
    pub(crate) fn seldom(&self) -> Option<&Seldom> {
        self.seldom.get().map(|seldom| &**seldom)
    }

    /// The same, made if need be.
    pub(crate) fn make_seldom(&self) -> &Seldom {
        self.seldom.get_or_init(Box::default)
    }

    /// Whether it has any of these.
    pub(crate) fn has(&self, flags: u16) -> bool {
        self.flags.get() & flags != 0
    }

    pub(crate) fn set(&self, flag: u16) {
        self.flags.set(self.flags.get() | flag);
    }

    /// Whether this is the future of a run, which stays with its caller.
    pub(crate) fn is_root(&self) -> bool {
        self.has(ROOT)
    }

    pub(crate) fn name(&self) -> Rc<str> {
        let given = self.seldom().and_then(|seldom| seldom.name.borrow().clone());
        given.unwrap_or_else(|| Rc::from(format!("Task-{}", self.id).as_str()))
    }

    pub(crate) fn set_name(&self, name: &str) {
        *self.make_seldom().name.borrow_mut() = Some(Rc::from(name));
    }

    /// Where those who wait for the end are noted.
    pub(super) fn to_be_told(&self) -> &Waiters {
        self.set(WAITED);
        &self.waiters
    }

    /// Those who wait for the end.
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Queues a callback for the end, or at once if the end has come.
    pub(crate) fn add_callback(&self, handle: Handle) -> CallbackId {
        let id = self.to_be_told().add_callback(handle);
        if self.has(DONE) {
            self.complete();
        }
        id
    }

    fn take_error(&self) -> Option<TaskError> {
        self.seldom()?.error.take()
    }

    fn complete(&self) {
        if !self.has(WAITED) {
            return;
        }
        let lp = self.home.upgrade();
        self.waiters.complete(lp.map(|inner| LoopRef { inner }).as_ref());
    }
}

/// A [`Join`] of any output.
pub(crate) trait AnyJoin {
    fn header(&self) -> &Header;

    fn as_any(&self) -> &dyn Any;

    fn into_any(self: Rc<Self>) -> Rc<dyn Any>;

    /// Ends the task: with `error`, or with the value that its body left. Called once, after the body
    /// was dropped.
    fn end(self: Rc<Self>, lp: &LoopRef, error: Option<TaskError>);
}

/// The body of a task leaves its output.
#[inline(always)]
pub(super) fn leave<T: 'static>(join: &dyn AnyJoin, value: T) {
    let join = join.as_any().downcast_ref::<Join<T>>();
    join.expect("a task has one output").leave(value);
}

enum Outcome<T> {
    Pending,
    Value(T),
    /// The header has the error.
    Failed,
    Taken,
}

pub(crate) struct Join<T> {
    pub(crate) header: Header,
    outcome: Cell<Outcome<T>>,
}

impl<T> Join<T> {
    pub(crate) fn new(header: Header) -> Self {
        Join { header, outcome: Cell::new(Outcome::Pending) }
    }

    /// The body leaves its output. There was none before.
    #[inline]
    fn leave(&self, value: T) {
        self.outcome.set(Outcome::Value(value));
        self.header.set(LEFT);
    }

    /// The task has failed. What it has left all the same, for the caller to drop.
    #[must_use]
    fn fail(&self, error: TaskError) -> Outcome<T> {
        self.header.make_seldom().error.set(Some(error));
        self.outcome.replace(Outcome::Failed)
    }

    /// Takes what nobody has read.
    #[inline]
    pub(crate) fn take_unread(&self) -> Option<Result<T, TaskError>> {
        self.header.set(TAKEN);
        match self.outcome.replace(Outcome::Taken) {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Failed => self.header.take_error().map(Err),
            Outcome::Pending | Outcome::Taken => None,
        }
    }

    /// Looks at the outcome, with no user code.
    pub(crate) fn look<R>(&self, look: impl FnOnce(Option<Result<&T, &TaskError>>) -> R) -> R {
        let outcome = self.outcome.replace(Outcome::Taken);
        let error = self.header.take_error();
        let seen = look(match &outcome {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Failed => error.as_ref().map(Err),
            Outcome::Pending | Outcome::Taken => None,
        });
        self.outcome.set(outcome);
        if let Some(error) = error {
            self.header.make_seldom().error.set(Some(error));
        }
        seen
    }

    /// Why there is no value, if what a spawn hook made of the body ended before it.
    fn abandoned(&self) -> Option<TaskError> {
        let abandoned = !self.header.has(LEFT | ROOT);
        let reason = || Some(Arc::from("the spawn hook's future ended before the task's"));
        abandoned.then(|| TaskError::Cancelled { reason: reason() })
    }

    /// The outcome, once; `None` while there is none or after it was taken.
    pub(crate) fn take(&self) -> Option<Result<T, TaskError>> {
        if !self.header.has(DONE) {
            return None;
        }
        self.take_unread()
    }
}

impl<T: 'static> Join<T> {
    /// The outcome is there: tells who waits, or what nobody will read.
    #[inline(always)]
    fn tell(self: Rc<Self>, lp: &LoopRef) {
        self.header.set(DONE);
        self.header.complete();
        if self.header.has(UNHANDLED) {
            let unwanted = self.take_unwanted();
            guard::discard(lp, unwanted);
        }
    }

    /// One for a new task, in the memory of the loop's spare one if that fits.
    pub(crate) fn for_task(
        inner: &Rc<Inner>,
        site: &'static Location<'static>,
        name: Option<Rc<str>>,
    ) -> Rc<Self> {
        let spare = inner.tasks.borrow_mut().joins.pop();
        let spare = spare.and_then(|spare| spare.into_any().downcast::<Self>().ok());
        if let Some(mut join) = spare {
            if let Some(Join { header, outcome }) = Rc::get_mut(&mut join) {
                header.renew(site, name);
                *outcome.get_mut() = Outcome::Pending;
                return join;
            }
        }
        Rc::new(Join::new(Header::new(inner, site, name, 0)))
    }
}

/// How many are kept: what ends in one turn of a busy loop.
const MOST_KEPT: usize = 1_024;

/// Those of tasks that have ended, whose outcome was read and whose last handle goes. Only the one that came
/// back last is looked at.
#[derive(Default)]
pub(crate) struct SpareJoins(Vec<Rc<dyn AnyJoin>>);

impl SpareJoins {
    pub(crate) fn pop(&mut self) -> Option<Rc<dyn AnyJoin>> {
        self.0.pop()
    }

    /// Keeps one that holds no user's value.
    pub(crate) fn keep(&mut self, join: Rc<dyn AnyJoin>) {
        if self.0.len() < MOST_KEPT {
            self.0.push(join);
        }
    }
}

impl<T: 'static> AnyJoin for Join<T> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }

    fn end(self: Rc<Self>, lp: &LoopRef, error: Option<TaskError>) {
        let Some(error) = error.or_else(|| self.abandoned()) else { return self.tell(lp) };
        if error.is_cancelled() {
            self.header.set(CANCELLED);
        }
        // A body that was cancelled in its last step may have left a value. What that raises may end the run.
        let left = self.fail(error);
        self.tell(lp);
        guard::discard(lp, left);
    }
}

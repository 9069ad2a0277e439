//! What a task shares with its handles: the outcome, and who waits for it.

use std::cell::{Cell, OnceCell, RefCell};
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loop_handle::Handle;

use super::cell::TaskKey;
use super::request::Requests;
use super::state::{CANCELLED, DONE, LEFT, ROOT, TAKEN, UNHANDLED, WAITED};
use super::unread::{self, ErasedAsError};
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

/// A task's, with an output of this type.
pub(crate) type Join<T> = Shared<Cell<Outcome<T>>>;

/// One of any output.
pub(crate) type AnyJoin = Shared<dyn AnyOutcome>;

pub(crate) struct Shared<O: ?Sized> {
    pub(crate) id: u64,
    /// Its slot in the task table.
    pub(super) index: Cell<u32>,
    pub(crate) home: Weak<Inner>,
    pub(crate) site: &'static Location<'static>,
    flags: Cell<u16>,
    seldom: OnceCell<Box<Seldom>>,
    waiters: Waiters,
    outcome: O,
}

pub(crate) enum Outcome<T> {
    Pending,
    Value(T),
    /// It is with what few tasks have.
    Failed,
    Taken,
}

/// An [`Outcome`] of any type.
pub(crate) trait AnyOutcome {
    /// The task has failed. What it has left all the same is dropped when that has been told.
    fn fail(&self, lp: &LoopRef, tell: &mut dyn FnMut());

    /// Nobody will read it: reports what is to be reported of it, and drops it.
    fn discard(&self, join: &Rc<AnyJoin>, lp: &LoopRef);
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

impl<T> Join<T> {
    pub(crate) fn new(
        home: Weak<Inner>,
        site: &'static Location<'static>,
        name: Option<Rc<str>>,
        flags: u16,
    ) -> Self {
        Shared {
            id: next_id(),
            index: Cell::new(u32::MAX),
            home,
            site,
            flags: Cell::new(flags),
            seldom: Seldom::named(name),
            waiters: Waiters::default(),
            outcome: Cell::new(Outcome::Pending),
        }
    }

    /// That of a task which has ended becomes a new one's, of the same loop, unless somebody has it still; then the new
    /// one gets memory of its own.
    #[inline]
    pub(super) fn renew(
        this: &mut Rc<Self>,
        site: &'static Location<'static>,
        name: Option<Rc<str>>,
    ) {
        let Some(join) = Rc::get_mut(this) else {
            *this = Rc::new(Join::new(this.home.clone(), site, name, 0));
            return;
        };
        join.id = next_id();
        join.site = site;
        join.flags = Cell::new(0);
        join.outcome = Cell::new(Outcome::Pending);
        if name.is_some() || join.seldom.get().is_some() {
            join.renew_seldom(name);
        }
    }

    /// The body leaves its output. There was none before.
    #[inline]
    pub(super) fn leave(&self, value: T) {
        self.outcome.set(Outcome::Value(value));
        self.set(LEFT);
    }

    /// Takes what nobody has read.
    #[inline]
    pub(crate) fn take_unread(&self) -> Option<Result<T, TaskError>> {
        self.take_unread_of(&self.outcome)
    }

    /// The outcome, once; `None` while there is none or after it was taken.
    pub(crate) fn take(&self) -> Option<Result<T, TaskError>> {
        if !self.has(DONE) {
            return None;
        }
        self.take_unread()
    }

    /// Looks at the outcome, with no user code.
    pub(crate) fn look<R>(&self, look: impl FnOnce(Option<Result<&T, &TaskError>>) -> R) -> R {
        let outcome = self.outcome.replace(Outcome::Taken);
        let error = self.take_error();
        let seen = look(match &outcome {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Failed => error.as_ref().map(Err),
            Outcome::Pending | Outcome::Taken => None,
        });
        self.outcome.set(outcome);
        if let Some(error) = error {
            self.make_seldom().error.set(Some(error));
        }
        seen
    }
}

impl<O: ?Sized> Shared<O> {
    #[cold]
    fn renew_seldom(&mut self, name: Option<Rc<str>>) {
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

    /// Takes what nobody has read, which is in its outcome.
    #[inline]
    fn take_unread_of<T>(&self, outcome: &Cell<Outcome<T>>) -> Option<Result<T, TaskError>> {
        self.set(TAKEN);
        match outcome.replace(Outcome::Taken) {
            Outcome::Value(value) => Some(Ok(value)),
            Outcome::Failed => self.take_error().map(Err),
            Outcome::Pending | Outcome::Taken => None,
        }
    }

    #[inline(never)]
    fn complete(&self) {
        let lp = self.home.upgrade();
        self.waiters.complete(lp.map(|inner| LoopRef { inner }).as_ref());
    }

    /// Why there is no value, if what a spawn hook made of the body ended before it.
    #[inline]
    fn abandoned(&self) -> Option<TaskError> {
        if self.has(LEFT | ROOT) { None } else { Some(abandoned()) }
    }
}

impl AnyJoin {
    /// Ends the task: with `error`, or with the value that its body left. Called once, after the body
    /// was dropped.
    #[inline]
    pub(super) fn end(self: &Rc<Self>, lp: &LoopRef, error: Option<TaskError>) {
        match error.or_else(|| self.abandoned()) {
            None => self.tell(lp),
            Some(error) => self.fail(lp, error),
        }
    }

    #[inline(never)]
    fn fail(self: &Rc<Self>, lp: &LoopRef, error: TaskError) {
        if error.is_cancelled() {
            self.set(CANCELLED);
        }
        self.make_seldom().error.set(Some(error));
        self.outcome.fail(lp, &mut || self.tell(lp));
    }

    /// The outcome is there: tells who waits, or what nobody will read.
    #[inline]
    fn tell(self: &Rc<Self>, lp: &LoopRef) {
        self.set(DONE);
        if self.has(WAITED) {
            self.complete();
        }
        if self.has(UNHANDLED) {
            self.outcome.discard(self, lp);
        }
    }
}

impl<T: 'static> AnyOutcome for Cell<Outcome<T>> {
    fn fail(&self, lp: &LoopRef, tell: &mut dyn FnMut()) {
        // A body that was cancelled in its last step may have left a value. What that raises may end the run.
        let left = self.replace(Outcome::Failed);
        tell();
        guard::discard(lp, left);
    }

    fn discard(&self, join: &Rc<AnyJoin>, lp: &LoopRef) {
        let unwanted = unread::take_unwanted(join, join.take_unread_of(self));
        guard::discard(lp, unwanted);
    }
}

#[cold]
fn abandoned() -> TaskError {
    let reason = "the spawn hook's future ended before the task's";
    TaskError::Cancelled { reason: Some(Arc::from(reason)) }
}

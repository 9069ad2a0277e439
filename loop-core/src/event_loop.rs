//! The loop's owner: it runs, and it closes.

use std::cell::OnceCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::panic::Location;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use loop_timer::TimerHeap;

use crate::builder::Builder;
use crate::current::{self, EnterGuard};
use crate::error::LoopError;
use crate::executor::DefaultPool;
use crate::guard::{self, DESTRUCTOR, Undeterred};
use crate::guest::Turn;
use crate::loop_ref::LoopRef;
use crate::pace::Pace;
use crate::run_once::{Scratch, run_once};
use crate::task::{self, Advance, Root, TaskKey, TaskRef};

/// An event loop: the thing that runs callbacks and tasks, one at a time, on one thread.
///
/// It dereferences to [`LoopRef`], which has all that schedules; the methods here run and close. They
/// take `&mut self`, so a callback, which can only hold a `LoopRef`, can neither nest a run nor close
/// a running loop (B-LOOP-10, B-LOOP-20). Dropping the loop closes it.
pub struct EventLoop {
    pub(crate) lp: LoopRef,
    pub(crate) scratch: Scratch,
    /// For hosts to wait for; made when it is first asked for.
    pub(crate) guest_fd: OnceCell<OwnedFd>,
    pace: Pace,
}

impl EventLoop {
    /// A loop on the best selector of this system; see [`default_selector`](loop_selector::default_selector).
    ///
    /// # Errors
    /// If no selector can be made, for want of descriptors, say.
    pub fn new() -> io::Result<EventLoop> {
        Builder::default().build()
    }

    /// A loop made to order.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn assemble(lp: LoopRef, scratch: Scratch, pace: Pace) -> Self {
        EventLoop { lp, scratch, guest_fd: OnceCell::new(), pace }
    }

    /// A reference for callbacks and tasks to hold.
    pub fn loop_ref(&self) -> LoopRef {
        self.lp.clone()
    }

    /// Runs until [`stop`](LoopRef::stop).
    ///
    /// # Errors
    /// [`LoopError::Closed`], [`LoopError::NestedLoop`], [`LoopError::Forked`] in a child of a fork, or
    /// [`LoopError::Select`] if waiting failed.
    ///
    /// # Panics
    /// Only with a [`LoopAbort`](crate::LoopAbort) that a callback raised.
    pub fn run_forever(&mut self) -> Result<(), LoopError> {
        let _entered = self.begin_run()?;
        self.run(&mut None)
    }

    /// Runs until `future` is done, and returns its output.
    ///
    /// The future is polled in place, so it may borrow from the caller. It is dropped with the loop
    /// still current. To resume after [`LoopError::StoppedEarly`], pass a
    /// [`Task`](crate::Task), a [`LoopFuture`](crate::LoopFuture) or a `Pin<&mut F>`.
    ///
    /// ```
    /// # use loop_core::{EventLoop, sleep};
    /// # use std::time::Duration;
    /// let mut event_loop = EventLoop::new()?;
    /// let mut log = Vec::new();
    /// event_loop.run_until_complete(async {
    ///     sleep(Duration::from_millis(1)).await;
    ///     log.push("slept");
    /// })?;
    /// assert_eq!(log, ["slept"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run_forever`](Self::run_forever), [`LoopError::StoppedEarly`], and [`LoopError::Cancelled`] if
    /// the future is cancelled, by a [`TaskRef`](crate::TaskRef) of it, say.
    ///
    /// # Panics
    /// With the future's panic, after the loop has restored its state.
    #[track_caller]
    pub fn run_until_complete<F: Future>(&mut self, future: F) -> Result<F::Output, LoopError> {
        self.run_root(Location::caller(), future, |_| ())
    }

    /// Runs a future as the loop's root. `begun` is called with its task before the first iteration.
    pub(crate) fn run_root<F: Future>(
        &mut self,
        site: &'static Location<'static>,
        future: F,
        begun: impl FnOnce(TaskRef),
    ) -> Result<F::Output, LoopError> {
        // Declared first, so that whatever the future owns is dropped while the loop is current.
        let _entered = self.begin_run()?;
        let mut future = pin!(Some(future));
        let mut output = Err(LoopError::StoppedEarly);
        let lp = self.lp.clone();
        let key = task::add_root(&lp, site);
        let _forget = ForgetRoot { lp: &lp, key };
        if let Some(root) = task::find(&lp.inner, key) {
            begun(root);
        }
        let mut advance = |how: Advance<'_, '_>| {
            let result = match (how, future.as_mut().as_pin_mut()) {
                (Advance::Poll(cx), Some(running)) => match running.poll(cx) {
                    Poll::Ready(value) => Ok(value),
                    Poll::Pending => return Poll::Pending,
                },
                (Advance::Poll(_), None) => return Poll::Ready(()),
                (Advance::Cancel(reason), _) => Err(LoopError::Cancelled { reason }),
            };
            future.set(None);
            output = result;
            lp.stop();
            Poll::Ready(())
        };
        self.run(&mut Some(Root { key, advance: &mut advance }))?;
        output
    }

    /// One iteration, for hosts that run a loop of their own: waits at most `limit`, or until
    /// something happens if that is `None` (B-LOOP-28). See [`prepare_wait`](Self::prepare_wait) for hosts
    /// that do the waiting too.
    ///
    /// # Errors
    /// As [`run_forever`](Self::run_forever).
    pub fn run_once(&mut self, limit: Option<Duration>) -> Result<Turn, LoopError> {
        self.enter()?.run_once(limit)
    }

    pub(crate) fn begin_run(&self) -> Result<EnterGuard, LoopError> {
        if self.lp.is_closed() {
            return Err(LoopError::Closed);
        }
        EnterGuard::enter(&self.lp.inner)
    }

    fn run(&mut self, root: &mut Option<Root<'_>>) -> Result<(), LoopError> {
        self.scratch.begin_run(&self.lp.inner);
        loop {
            // Taken before the iteration would lose a stop that is asked for in it (B-LOOP-08).
            let limit = self.pace.next_limit(&self.lp.inner, &self.scratch);
            run_once(&self.lp, &mut self.scratch, root, limit)?;
            if self.lp.inner.stopping.get() {
                return Ok(());
            }
        }
    }

    /// Closes the loop: drops every task, callback and registration without running it, also those
    /// whose handles are still held, restores signal dispositions and closes the selector. Tasks that
    /// were still pending are reported. Closing twice is fine (B-LOOP-21).
    ///
    /// Destructors that run meanwhile may use the loop and find it closed.
    ///
    /// # Panics
    /// If one of them raises a [`LoopAbort`](crate::LoopAbort), which goes on when all is closed, unless a panic
    /// is going on as it is. Other panics are reported.
    pub fn close(&mut self) {
        let lp = &self.lp;
        let inner = &lp.inner;
        if inner.closed.replace(true) {
            return;
        }
        let _current = EnterGuard::replace(inner);
        inner.inbox.close();
        // An abort by a destructor ends no part of this.
        let mut closing = Undeterred::default();
        task::drop_all(lp, &mut closing);
        for entry in inner.ready.take(&mut self.scratch.batch) {
            closing.run(|| guard::guarded(lp, DESTRUCTOR, || entry.cancel()));
        }
        let mut timers = std::mem::replace(&mut *inner.timers.borrow_mut(), TimerHeap::new());
        for (_, _, item) in timers.drain() {
            closing.run(|| guard::guarded(lp, DESTRUCTOR, || item.cancel()));
        }
        let registrations = inner.io.borrow_mut().take();
        for (token, registration) in registrations {
            let owner = lp.deregister_from_selector(token);
            closing.run(|| guard::discard(lp, owner));
            closing.run(|| guard::guarded(lp, DESTRUCTOR, || registration.cancel()));
        }
        while let Some(message) = inner.inbox.pop() {
            closing.run(|| guard::guarded(lp, DESTRUCTOR, || message.cancel()));
        }
        // Threads at work are not waited for; what they bring is dropped.
        let executor = inner.executor.replace(DefaultPool::ShutDown);
        closing.run(|| guard::discard(lp, executor));
        let handlers = inner.signals.borrow_mut().take();
        for handler in handlers {
            closing.run(|| guard::guarded(lp, DESTRUCTOR, || handler.cancel()));
        }
        let selector = inner.selector.borrow_mut().take();
        closing.run(|| guard::discard(lp, selector));
        current::remove(inner.id);
        closing.finish_in_unwind();
    }
}

/// Takes the root future off the task table on every way out of a run (B-LOOP-15).
struct ForgetRoot<'a> {
    lp: &'a LoopRef,
    key: TaskKey,
}

impl Drop for ForgetRoot<'_> {
    fn drop(&mut self) {
        task::remove_root(self.lp, self.key);
    }
}

impl Deref for EventLoop {
    type Target = LoopRef;

    fn deref(&self) -> &LoopRef {
        &self.lp
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.close();
        // A hook or handler that holds the loop would keep it alive.
        self.set_spawn_hook(None);
        self.set_exception_handler(None);
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").field("loop_ref", &self.lp).finish_non_exhaustive()
    }
}

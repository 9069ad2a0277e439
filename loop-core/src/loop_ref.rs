//! What callbacks and tasks hold of their loop.

use std::fmt;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use loop_handle::{Context, Handle, Outcome, TimerHandle, TimerOwner};

use crate::awaited;
use crate::clock::saturating_add;
use crate::current;
use crate::inner::{DEBUG, Inner, TimerItem};
use crate::remote::Remote;

/// A reference to a loop, for its own thread: cheap to clone, what callbacks capture.
///
/// It is `!Send`; [`Remote`] is the way in from other threads. After the loop was closed it goes on
/// to answer: scheduling drops what it is given and returns cancelled handles (B-LOOP-22).
#[derive(Clone)]
pub struct LoopRef {
    pub(crate) inner: Rc<Inner>,
}

impl LoopRef {
    /// The loop that runs on this thread.
    ///
    /// # Panics
    /// If none does; [`try_current`](Self::try_current) asks instead.
    #[track_caller]
    pub fn current() -> LoopRef {
        Self::try_current().expect("no event loop runs on this thread")
    }

    /// The loop that runs on this thread, if one does (B-LOOP-26).
    pub fn try_current() -> Option<LoopRef> {
        current::running().map(|inner| LoopRef { inner })
    }

    /// Runs `callback` in the next iteration, after everything that is queued already; asyncio's
    /// `call_soon`. First in, first out (B-LOOP-01). One allocation at most: a handle that has run and
    /// that nobody holds serves again for a closure of the same type.
    ///
    /// The callback may return `()` or a `Result<(), E>`; an `Err` and a panic are reported, and the
    /// loop goes on.
    ///
    /// ```
    /// # use loop_core::EventLoop;
    /// let mut event_loop = EventLoop::new()?;
    /// let lp = event_loop.loop_ref();
    /// event_loop.call_soon(move || {
    ///     println!("hello");
    ///     lp.stop();
    /// });
    /// event_loop.run_forever()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn call_soon<F, R>(&self, callback: F) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        self.push_callback(Location::caller(), None, callback)
    }

    /// [`call_soon`](Self::call_soon) in an explicit [`Context`], which keeps what the callback
    /// writes (B-HND-06).
    #[track_caller]
    pub fn call_soon_in<F, R>(&self, context: &Context, callback: F) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        self.push_callback(Location::caller(), Some(context), callback)
    }

    fn push_callback<F, R>(
        &self,
        site: &'static Location<'static>,
        context: Option<&Context>,
        callback: F,
    ) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        if self.inner.closed.get() {
            return Handle::new_cancelled(site, callback);
        }
        let handle = self.inner.handles.once_at(site, context, callback);
        self.inner.ready.push_handle(handle.clone());
        handle
    }

    /// Puts an existing handle on the ready queue: how a repeating [`Handle`] runs again without an
    /// allocation. On a closed loop the handle is cancelled.
    pub fn call_handle(&self, handle: &Handle) {
        if self.inner.closed.get() {
            handle.cancel();
        } else {
            self.inner.ready.push_handle(handle.clone());
        }
    }

    /// Runs `callback` once `delay` has passed; asyncio's `call_later`. A delay beyond the end of
    /// time never fires; [`delay_from_secs_f64`](crate::delay_from_secs_f64) makes one of a number.
    /// A delay of zero is not [`call_soon`](Self::call_soon): it runs after all that is ready in its
    /// iteration (B-TMR-11, B-TMR-12). One allocation at most. What is put off again and again, as an idle
    /// timeout is, needs one timer: [`TimerHandle::reschedule`].
    ///
    /// ```
    /// # use loop_core::EventLoop;
    /// # use std::time::Duration;
    /// # let event_loop = EventLoop::new()?;
    /// const IDLE: Duration = Duration::from_secs(60);
    /// let mut idle = event_loop.call_later(IDLE, || println!("nothing came for a minute"));
    /// // Whenever something comes:
    /// idle.reschedule(event_loop.now() + IDLE);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn call_later<F, R>(&self, delay: Duration, callback: F) -> TimerHandle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        let when = saturating_add(self.now(), delay);
        self.push_timer(Location::caller(), when, callback)
    }

    /// Runs `callback` once the loop's clock reads `when`; asyncio's `call_at`. Timers run in the
    /// order of their deadlines, equal ones in the order in which they got them (B-TMR-01, B-TMR-02, B-TMR-14);
    /// deadlines before the loop's creation count as equal to it.
    #[track_caller]
    pub fn call_at<F, R>(&self, when: Instant, callback: F) -> TimerHandle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        self.push_timer(Location::caller(), when, callback)
    }

    fn push_timer<F, R>(
        &self,
        site: &'static Location<'static>,
        when: Instant,
        callback: F,
    ) -> TimerHandle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        if self.inner.closed.get() {
            let handle = Handle::new_cancelled(site, callback);
            return TimerHandle::new(handle, when, Weak::<Inner>::new(), 0);
        }
        let handle = self.inner.handles.once_at(site, None, callback);
        let key = self.inner.insert_timer(when, TimerItem::Callback(handle.clone()));
        let owner: Weak<dyn TimerOwner> = Rc::downgrade(&self.inner) as Weak<dyn TimerOwner>;
        TimerHandle::new(handle, when, owner, key.to_bits())
    }

    /// Ends the run after the current iteration; everything queued for that iteration still runs,
    /// and what it schedules is kept for the next run (B-LOOP-08). Before a run: that run makes one
    /// iteration without waiting (B-LOOP-09).
    pub fn stop(&self) {
        self.inner.stopping.set(true);
    }

    /// The loop's clock. It also answers when the loop does not run or is closed.
    pub fn now(&self) -> Instant {
        self.inner.now()
    }

    /// Whether the loop runs: true from set-up to clean-up of a run (B-LOOP-26).
    pub fn is_running(&self) -> bool {
        self.inner.running.get()
    }

    /// Whether the loop is closed.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.get()
    }

    /// The selector that this loop waits with: `"epoll"`, say.
    pub fn selector_name(&self) -> &'static str {
        self.inner.selector_name
    }

    /// A reference for other threads.
    pub fn remote(&self) -> Remote {
        Remote::new(self.inner.inbox.clone())
    }

    /// Whether debug mode is on: off by default, on by the builder, by
    /// [`set_debug`](Self::set_debug) or by the environment variable `LOOP_DEBUG=1` (B-DBG-01).
    pub fn debug(&self) -> bool {
        self.inner.is_marked(DEBUG)
    }

    /// Turns debug mode on or off, also while the loop runs.
    ///
    /// In debug mode a callback or task step that takes
    /// [`slow_callback_duration`](Self::set_slow_callback_duration) or longer is reported as a
    /// warning; that costs two clock reads and an allocation each, some 100 ns. Waits of the loop are reported too,
    /// with their duration, timeout and number of events: as [`Severity::Info`] from one second on, else as
    /// [`Severity::Debug`]; but not those of no time, nor those below a second that only timed out (B-DBG-07).
    /// Locks note who holds them, for a [`dump`](Self::dump).
    ///
    /// [`Severity::Info`]: crate::Severity::Info
    /// [`Severity::Debug`]: crate::Severity::Debug
    pub fn set_debug(&self, on: bool) {
        if on {
            awaited::note_holders();
            self.inner.mark(DEBUG);
        } else {
            self.inner.unmark(DEBUG);
        }
    }

    /// How long a callback may take in debug mode before it is reported.
    pub fn slow_callback_duration(&self) -> Duration {
        self.inner.slow_callback_duration.get()
    }

    /// Sets the threshold of slow callbacks; 100 ms at the start (B-DBG-02).
    pub fn set_slow_callback_duration(&self, threshold: Duration) {
        self.inner.slow_callback_duration.set(threshold);
    }
}

impl fmt::Debug for LoopRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopRef")
            .field("selector", &self.selector_name())
            .field("running", &self.is_running())
            .field("closed", &self.is_closed())
            .field("debug", &self.debug())
            .finish()
    }
}

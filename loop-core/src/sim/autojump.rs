//! `AutoJump`: a selector that does not wait for time to pass.

use std::error::Error;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use loop_selector::{AsSource, Events, Interest, RegisterError, Registry, Selector, Token, Waker};

use super::hold::Holds;
use crate::clock::VirtualClock;

/// Virtual time over a selector: where the loop would sleep until its next timer, the clock jumps there.
///
/// An hour of timers runs in microseconds, in the order in which it would have run. The clock jumps
/// only while a wait could end in no other way:
///
/// - nothing is ready, and a wait of no time at all finds nothing;
/// - nothing [holds](crate::TimeHold) time: no blocking work is under way, no signal is watched (but for
///   Ctrl-C by a [`Runner`](crate::Runner), and for [dumps](crate::LoopRef::dump_on_signal)), no
///   [`Remote`](crate::Remote) lives that a thread could call.
///
/// While something holds time, the loop really waits and its clock goes as fast as the real one: it never
/// jumps over what is in flight. A registered descriptor alone holds nothing, so that two ends of a
/// connection in one loop can both sleep; if its other end is with another thread or process, keep a
/// [`TimeHold`](crate::TimeHold) while you expect something from there.
///
/// If no timer is left either, and no descriptor, nothing can ever happen: the run ends with
/// [`LoopError::Deadlock`](crate::LoopError::Deadlock).
///
/// ```
/// use loop_core::{AutoJump, EventLoop, default_selector, sleep};
/// use std::time::Duration;
///
/// let time = AutoJump::new(default_selector()?);
/// let mut event_loop = EventLoop::builder().virtual_time(time).build()?;
/// let began = event_loop.now();
/// event_loop.run_until_complete(sleep(Duration::from_secs(3600)))?; // takes no time
/// assert_eq!(event_loop.now() - began, Duration::from_secs(3600));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AutoJump<S> {
    selector: S,
    clock: Rc<VirtualClock>,
    holds: Holds,
}

impl<S: Selector> AutoJump<S> {
    /// Virtual time over `selector`, on a clock that stands at the moment of this call.
    pub fn new(selector: S) -> Self {
        Self::with_clock(selector, Rc::default())
    }

    /// Virtual time on a clock that others have too, who may move it as well.
    pub fn with_clock(selector: S, clock: Rc<VirtualClock>) -> Self {
        let holds = Holds::with_waker(selector.waker());
        AutoJump { selector, clock, holds }
    }

    /// The clock.
    pub fn clock(&self) -> Rc<VirtualClock> {
        self.clock.clone()
    }

    pub(crate) fn holds(&self) -> Holds {
        self.holds.clone()
    }

    /// Waits while the clock goes as fast as the real one.
    fn wait(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let began = Instant::now();
        let result = self.selector.select(events, timeout);
        let elapsed = began.elapsed();
        self.clock.advance(timeout.map_or(elapsed, |timeout| timeout.min(elapsed)));
        result
    }
}

/// Nothing can ever happen. The loop makes a [`Deadlock`](super::Deadlock) of it.
#[derive(Debug)]
struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing can ever happen: no timer, no descriptor, and nothing in flight")
    }
}

impl Error for Stalled {}

pub(crate) fn is_stalled(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<Stalled>())
}

impl<S: Selector> Selector for AutoJump<S> {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        self.selector.register(owner, interest)
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.selector.modify(token, interest)
    }

    fn rearm(&mut self, token: Token) -> io::Result<()> {
        self.selector.rearm(token)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        self.selector.deregister(token)
    }

    /// The one place where virtual time moves by itself.
    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        // Looked at first: who holds time wakes before it lets go, so if nobody does, every wake of those
        // who did is seen below. The other way round one could slip in between.
        if self.holds.any() {
            return self.wait(events, timeout);
        }
        let woken = self.selector.waker().is_notified();
        self.selector.select(events, Some(Duration::ZERO))?;
        if woken || !events.is_empty() {
            return Ok(());
        }
        match timeout {
            Some(timeout) => self.clock.advance(timeout),
            None if self.registry().is_empty() => return Err(io::Error::other(Stalled)),
            None => return self.wait(events, None),
        }
        Ok(())
    }

    fn registry(&self) -> &Registry {
        self.selector.registry()
    }

    fn waker(&self) -> Waker {
        self.selector.waker()
    }

    fn name(&self) -> &'static str {
        self.selector.name()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.selector.as_fd()
    }
}

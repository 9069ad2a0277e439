//! `HostWaker`: for hosts that cannot wait for a descriptor.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use loop_selector::{Events, Interest, PollSelector, Selector, Token, Waker};

use crate::event_loop::EventLoop;

/// Calls the host back when its guest has something to do: a thread that waits for the loop's descriptor in the
/// host's place.
///
/// ```
/// use loop_core::{EventLoop, HostWaker, Turn};
/// use std::{sync::mpsc, time::Duration};
///
/// let mut event_loop = EventLoop::new()?;
/// # if event_loop.as_fd().is_err() { return Ok(()) } // poll and select have none
/// let lp = event_loop.loop_ref();
/// event_loop.call_later(Duration::from_millis(2), move || lp.stop());
///
/// // The host's own queue; a toolkit has a function that posts to it from any thread.
/// let (post, posted) = mpsc::channel();
/// let waker = HostWaker::new(&event_loop, move || drop(post.send(())))?;
/// loop {
///     waker.arm(event_loop.prepare_wait());
///     posted.recv()?;
///     if event_loop.run_once(Some(Duration::ZERO))? == Turn::Stopped {
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it ends the thread, and waits for a call that is under way.
pub struct HostWaker {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    order: Mutex<Order>,
    /// Ends the thread's wait when there is a new order.
    waker: Waker,
}

#[derive(Clone, Copy)]
enum Order {
    Rest,
    /// Call when the descriptor is readable or at this instant.
    Watch(Option<Instant>),
    End,
}

impl Shared {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, order: Order) {
        *self.order() = order;
        self.waker.wake();
    }
}

impl HostWaker {
    /// Starts the thread; it does nothing before [`arm`](Self::arm). `wake` is called on it, so it should do no
    /// more than post to the host, which then steps the loop. A panic in it ends the thread.
    ///
    /// # Errors
    /// As [`EventLoop::as_fd`], and what starting a thread says.
    pub fn new(
        event_loop: &EventLoop,
        wake: impl FnMut() + Send + 'static,
    ) -> io::Result<HostWaker> {
        let fd = event_loop.duplicate_fd()?;
        let waker = Waker::new()?;
        let shared = Arc::new(Shared { order: Mutex::new(Order::Rest), waker });
        let theirs = shared.clone();
        let (started, has_started) = mpsc::sync_channel(1);
        // A selector stays on its thread, so it is made there.
        let body = move || match Watch::new(&theirs, fd) {
            Ok(watch) => {
                // Whoever made the thread waits for this.
                let _ = started.send(Ok(()));
                watch.run(wake);
            }
            Err(error) => drop(started.send(Err(error))),
        };
        let thread = thread::Builder::new().name("loop-host-waker".to_owned()).spawn(body)?;
        has_started.recv().unwrap_or_else(|_| Err(io::Error::other("the waker's thread ended")))?;
        Ok(HostWaker { shared, thread: Some(thread) })
    }

    /// Has the host called back once: as soon as the loop has something to do, and at `deadline` at the latest.
    /// Give it what [`prepare_wait`](EventLoop::prepare_wait) gives, which must come right before. Arming again
    /// replaces what was not called yet.
    pub fn arm(&self, deadline: Option<Instant>) {
        self.shared.give(Order::Watch(deadline));
    }
}

impl Drop for HostWaker {
    fn drop(&mut self) {
        self.shared.give(Order::End);
        let Some(thread) = self.thread.take() else { return };
        // It may be dropped by the very call that it makes.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join(); // A panic of the host's was told by the panic hook.
        }
    }
}

impl fmt::Debug for HostWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let armed = matches!(*self.shared.order(), Order::Watch(_));
        f.debug_struct("HostWaker").field("armed", &armed).finish()
    }
}

/// The thread's side.
struct Watch {
    shared: Arc<Shared>,
    selector: PollSelector,
    guest: Token,
    events: Events,
}

impl Watch {
    fn new(shared: &Arc<Shared>, fd: OwnedFd) -> io::Result<Watch> {
        let mut selector = PollSelector::with_waker(shared.waker.clone())?;
        let guest = selector.register(Rc::new(fd), Interest::READ)?;
        Ok(Watch { shared: shared.clone(), selector, guest, events: Events::default() })
    }

    fn run(mut self, mut wake: impl FnMut()) {
        loop {
            let order = *self.shared.order();
            let waited = match order {
                Order::End => return,
                Order::Rest => self.wait(None, None),
                Order::Watch(deadline) => {
                    let left = |at: Instant| at.saturating_duration_since(Instant::now());
                    self.wait(Some(Interest::READ), deadline.map(left))
                }
            };
            // A wait that fails is for the guest's own wait to tell of.
            if self.is_due(waited.is_err() || !self.events.is_empty()) {
                wake();
            }
        }
    }

    fn wait(&mut self, interest: Option<Interest>, limit: Option<Duration>) -> io::Result<()> {
        self.selector.modify(self.guest, interest)?;
        self.selector.select(&mut self.events, limit)
    }

    /// Whether the order, as it is by now, asks for a call; it is used up with that.
    fn is_due(&self, readable: bool) -> bool {
        let mut order = self.shared.order();
        let Order::Watch(deadline) = *order else { return false };
        let due = readable || deadline.is_some_and(|deadline| deadline <= Instant::now());
        if due {
            *order = Order::Rest;
        }
        due
    }
}

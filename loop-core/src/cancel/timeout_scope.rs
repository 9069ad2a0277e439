//! A time limit that can be moved while it is in force.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;

use super::binding::Place;
use super::node::Kind;
use super::timeout::Timeout;
use crate::error::Elapsed;

/// Runs the future that `body` makes, until `deadline`, which `body` can move; asyncio's `Timeout`.
/// `None` is no deadline. As [`timeout_at`](crate::timeout_at) in everything else.
///
/// ```
/// # use loop_core::{run, sleep, timeout_scope, LoopRef};
/// # use std::time::Duration;
/// # run(async {
/// let idle = Duration::from_millis(20);
/// let outcome = timeout_scope(Some(LoopRef::current().now() + idle), async |scope| {
///     for message in 0..3 {
///         sleep(Duration::from_millis(1)).await; // a message arrives: the clock starts anew
///         scope.reschedule(Some(LoopRef::current().now() + idle)).unwrap();
///     }
///     sleep(Duration::from_secs(3600)).await;
/// })
/// .await;
/// assert!(outcome.is_err());
/// # }).unwrap();
/// ```
///
/// # Errors
/// [`Elapsed`] if the time is up first.
pub fn timeout_scope<F, B>(deadline: Option<Instant>, body: B) -> TimeoutScoped<F>
where
    B: FnOnce(TimeoutScope) -> F,
    F: Future,
{
    let shared = Rc::new(Shared {
        when: Cell::new(deadline),
        place: RefCell::new(None),
        phase: Cell::new(Phase::Created),
    });
    let future = body(TimeoutScope { shared: shared.clone() });
    TimeoutScoped { timeout: Timeout::until(deadline, future), finish: Finish(shared) }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Created,
    Entered,
    Expired,
    Finished,
}

struct Shared {
    when: Cell<Option<Instant>>,
    place: RefCell<Option<Place>>,
    phase: Cell<Phase>,
}

impl Shared {
    fn is_expiring(&self) -> bool {
        let place = self.place.borrow();
        place.as_ref().and_then(|place| place.with(|tree, node| tree.node(node).expired))
            == Some(true)
    }
}

/// What the body of a [`timeout_scope`] holds of it.
#[derive(Clone)]
pub struct TimeoutScope {
    shared: Rc<Shared>,
}

impl TimeoutScope {
    /// The deadline; `None` if there is none.
    pub fn when(&self) -> Option<Instant> {
        self.shared.when.get()
    }

    /// Moves the deadline, or with `None` lifts it. One that has passed ends the body at its next
    /// suspension (B-TMO-11).
    ///
    /// # Errors
    /// [`NotActive`] before the scope is first polled, once its time is up, and after its end.
    pub fn reschedule(&self, deadline: Option<Instant>) -> Result<(), NotActive> {
        let state = match self.shared.phase.get() {
            Phase::Created => "not entered yet",
            Phase::Finished => "finished",
            Phase::Expired => "expired",
            Phase::Entered if self.shared.is_expiring() => "expiring",
            Phase::Entered => {
                self.shared.when.set(deadline);
                let place = self.shared.place.borrow().clone();
                if let Some(place) = place {
                    place.set_deadline(deadline);
                }
                return Ok(());
            }
        };
        Err(NotActive { state })
    }

    /// Whether the time was up while the body ran, also if the body made nothing of it (B-TMO-04).
    pub fn expired(&self) -> bool {
        match self.shared.phase.get() {
            Phase::Created | Phase::Finished => false,
            Phase::Entered => self.shared.is_expiring(),
            Phase::Expired => true,
        }
    }
}

impl fmt::Debug for TimeoutScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutScope")
            .field("when", &self.when())
            .field("expired", &self.expired())
            .finish()
    }
}

/// A deadline was moved that is not in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotActive {
    state: &'static str,
}

impl fmt::Display for NotActive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the deadline cannot be moved: the scope is {}", self.state)
    }
}

impl Error for NotActive {}

impl From<NotActive> for io::Error {
    fn from(error: NotActive) -> io::Error {
        io::Error::other(error)
    }
}

pin_project! {
    /// The future of [`timeout_scope`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct TimeoutScoped<F> {
        // In front of the scope, whose place it looks at when both are dropped.
        finish: Finish,
        #[pin]
        timeout: Timeout<F>,
    }
}

impl<F: Future> Future for TimeoutScoped<F> {
    type Output = Result<F::Output, Elapsed>;

    /// # Panics
    /// If polled outside a task, or again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let shared = &this.finish.0;
        // The body is to find its place from its first step on.
        let binding = this.timeout.as_mut().project().binding;
        drop(binding.enter(Kind::Scope));
        *shared.place.borrow_mut() = binding.place().cloned();
        if shared.phase.get() == Phase::Created {
            shared.phase.set(Phase::Entered);
        }
        this.timeout.as_mut().set_deadline(shared.when.get());
        // While it still has its place.
        let expired = shared.is_expiring();
        let polled = this.timeout.poll(cx);
        if polled.is_ready() {
            shared.finish(expired);
        }
        polled
    }
}

impl Shared {
    fn finish(&self, expired: bool) {
        if matches!(self.phase.get(), Phase::Created | Phase::Entered) {
            self.phase.set(if expired { Phase::Expired } else { Phase::Finished });
        }
    }
}

/// However the scope ends, its handles hear of it.
struct Finish(Rc<Shared>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish(self.0.is_expiring());
    }
}

impl<F> fmt::Debug for TimeoutScoped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timeout.fmt(f)
    }
}

//! A program's main function, asynchronous.

use std::collections::HashSet;
use std::fmt;
use std::future::IntoFuture;
use std::io;
use std::panic::Location;
use std::pin::pin;
use std::thread;
use std::time::Duration;

use loop_handle::Context;

use crate::cancel::timeout;
use crate::error::LoopError;
use crate::event_loop::EventLoop;
use crate::guard;
use crate::interrupts::Interrupts;
use crate::loop_ref::LoopRef;
use crate::report::ExceptionContext;
use crate::task::{InContext, current_task};

/// How often tasks that clean-ups keep spawning are cancelled before they are aborted.
const ROUNDS: usize = 100;

/// How long clean-ups may take unless the builder says otherwise.
const GRACE: Duration = Duration::from_secs(30);

/// How long the threads of blocking work are waited for.
const JOIN: Duration = Duration::from_secs(300);

/// Runs `future` on a loop of its own and closes that loop; asyncio's `run`. [`Runner`] has options and can
/// run several.
///
/// Tasks that are left when the future is done, or when it panics, are cancelled and waited for before the
/// loop closes, half a minute at the most, and blocking work on the loop's own threads is waited for, five
/// minutes at the most (B-RUN-03).
///
/// On the program's main thread Ctrl-C cancels the future: its clean-up runs, then this returns
/// [`LoopError::Interrupted`]. See [`Runner::run`].
///
/// ```
/// # use loop_core::{run, spawn};
/// let answer = run(async {
///     let task = spawn(async { 42 });
///     task.await.unwrap()
/// })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// # Errors
/// As [`Runner::run`].
///
/// # Panics
/// With the future's panic.
#[track_caller]
pub fn run<F: IntoFuture>(future: F) -> Result<F::Output, LoopError> {
    Runner::new().run(future)
}

/// A loop for a program: made when it is first needed, used for any number of runs, closed in good order.
/// asyncio's `Runner`.
///
/// ```
/// use loop_core::{ContextVar, Runner};
/// use std::time::Duration;
///
/// static USER: ContextVar<&str> = ContextVar::new();
///
/// let mut runner = Runner::builder().debug(true).grace(Duration::from_secs(5)).build();
/// runner.run(async { drop(USER.set("alice")) })?;
/// // The same loop, and the same context.
/// assert_eq!(runner.run(async { USER.get() })?, Some("alice"));
/// runner.close()?;
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// Dropping it closes it too, without telling of errors.
pub struct Runner {
    options: RunnerBuilder,
    made: Option<(EventLoop, Context)>,
}

type LoopFactory = Box<dyn FnOnce() -> io::Result<EventLoop>>;

/// Options of a [`Runner`]; from [`Runner::builder`].
#[must_use = "nothing is made before `build()`"]
pub struct RunnerBuilder {
    debug: Option<bool>,
    loop_factory: Option<LoopFactory>,
    name: Option<String>,
    grace: Option<Duration>,
    interrupts: Option<bool>,
}

impl RunnerBuilder {
    /// Turns debug mode on or off, whatever the environment and the loop's factory say (B-RUN-04).
    pub fn debug(mut self, on: bool) -> Self {
        self.debug = Some(on);
        self
    }

    /// Makes the loop, when one is needed first (B-RUN-05): with a selector or a clock of your own, say.
    pub fn loop_factory(
        mut self,
        factory: impl FnOnce() -> io::Result<EventLoop> + 'static,
    ) -> Self {
        self.loop_factory = Some(Box::new(factory));
        self
    }

    /// Names the futures that are run, for reports.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How long [`Runner::close`] waits for the clean-ups of cancelled tasks on the loop's clock; half a minute
    /// unless it is said here. Tasks that take longer are aborted, and a warning tells of each (contract C6).
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = Some(limit);
        self
    }

    /// Whether SIGINT cancels the future that is run. Unless it is said here, it does so on the thread that is
    /// named "main", as the program's first is.
    pub fn interrupts(mut self, on: bool) -> Self {
        self.interrupts = Some(on);
        self
    }

    /// The runner. It has no loop yet.
    pub fn build(self) -> Runner {
        Runner { options: self, made: None }
    }
}

impl fmt::Debug for RunnerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerBuilder")
            .field("debug", &self.debug)
            .field("name", &self.name)
            .field("grace", &self.grace)
            .field("interrupts", &self.interrupts)
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// A runner without options.
    pub fn new() -> Runner {
        Runner::builder().build()
    }

    /// A runner with options.
    pub fn builder() -> RunnerBuilder {
        RunnerBuilder { debug: None, loop_factory: None, name: None, grace: None, interrupts: None }
    }

    fn make(&mut self) -> Result<&mut (EventLoop, Context), LoopError> {
        let made = match self.made.take() {
            Some(made) => made,
            None => {
                let factory = self.options.loop_factory.take();
                let event_loop = factory.map_or_else(EventLoop::new, |factory| factory());
                let event_loop = event_loop.map_err(LoopError::Select)?;
                if let Some(debug) = self.options.debug {
                    event_loop.set_debug(debug);
                }
                (event_loop, Context::current())
            }
        };
        Ok(self.made.insert(made))
    }

    /// The loop, made if need be.
    ///
    /// # Errors
    /// [`LoopError::Select`] if it cannot be made.
    pub fn loop_ref(&mut self) -> Result<LoopRef, LoopError> {
        Ok(self.make()?.0.loop_ref())
    }

    /// Runs a future in the runner's own context, a copy of the one that is current when the loop is made. It
    /// keeps what the futures write (B-RUN-06). Tasks that are left when the future is done stay for the next run.
    ///
    /// The first SIGINT cancels the future with the reason "interrupted". If it ends cancelled for nothing else,
    /// that is [`LoopError::Interrupted`]; if it catches and swallows the request, what it returns is
    /// returned (B-RUN-09, B-RUN-10). A second SIGINT ends the run after the iteration that the loop is in,
    /// and drops the future where it is (B-RUN-11). A handler that the program has installed stays in force
    /// instead (B-RUN-13). A loop that is stuck in one callback hears of neither.
    ///
    /// # Errors
    /// As [`EventLoop::run_until_complete`], [`LoopError::Interrupted`], and [`LoopError::Select`] if no loop can
    /// be made.
    ///
    /// # Panics
    /// With the future's panic.
    #[track_caller]
    pub fn run<F: IntoFuture>(&mut self, future: F) -> Result<F::Output, LoopError> {
        self.run_at(Location::caller(), None, future)
    }

    /// [`run`](Self::run) in another context.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Panics
    /// With the future's panic, and if the context is entered already.
    #[track_caller]
    pub fn run_in<F: IntoFuture>(
        &mut self,
        context: &Context,
        future: F,
    ) -> Result<F::Output, LoopError> {
        self.run_at(Location::caller(), Some(context), future)
    }

    fn run_at<F: IntoFuture>(
        &mut self,
        site: &'static Location<'static>,
        context: Option<&Context>,
        future: F,
    ) -> Result<F::Output, LoopError> {
        // Before a loop is made for nothing (B-RUN-02).
        if LoopRef::try_current().is_some() {
            return Err(LoopError::NestedLoop);
        }
        let interrupts = self.options.interrupts;
        let handle = interrupts.unwrap_or_else(|| thread::current().name() == Some("main"));
        let name = self.options.name.clone();
        let (event_loop, own) = self.make()?;
        let lp = event_loop.loop_ref();
        let context = context.unwrap_or(own).clone();
        let future = InContext::new(context, async { future.into_future().await });
        let mut interrupts = None;
        let outcome = event_loop.run_root(site, future, |root| {
            if let Some(name) = name {
                root.set_name(&name);
            }
            interrupts = handle.then(|| Interrupts::install(&lp, &root)).flatten();
        });
        match interrupts {
            Some(interrupts) => interrupts.judge(outcome),
            None => outcome,
        }
    }

    /// Ends what is left, in this order: cancels the tasks and waits for them, aborts those that take longer than
    /// the [grace](RunnerBuilder::grace), waits for the loop's own threads, and closes the loop (B-RUN-03).
    /// Panics of the tasks are reported. Without a loop there is nothing to do.
    ///
    /// # Errors
    /// [`LoopError::NestedLoop`] inside a running loop and what else a run says. The loop is closed all the same,
    /// and drops what is left.
    pub fn close(mut self) -> Result<(), LoopError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), LoopError> {
        let Some((mut event_loop, _)) = self.made.take() else { return Ok(()) };
        let grace = self.options.grace.unwrap_or(GRACE);
        end_tasks(&mut event_loop, grace)?;
        if event_loop.has_default_executor() {
            let lp = event_loop.loop_ref();
            // It reports itself what goes wrong.
            let _ = event_loop.run_until_complete(lp.shutdown_default_executor(Some(JOIN)))?;
        }
        Ok(())
    }
}

impl Default for Runner {
    fn default() -> Runner {
        Runner::new()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // A second panic would end the process.
        if let (Err(panic), false) = (guard::hold_panic(|| self.finish()), thread::panicking()) {
            panic.resume();
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event_loop = self.made.as_ref().map(|(event_loop, _)| event_loop);
        f.debug_struct("Runner")
            .field("options", &self.options)
            .field("event_loop", &event_loop)
            .finish()
    }
}

/// Cancels every task, waits for them, and aborts those that do not end.
fn end_tasks(event_loop: &mut EventLoop, grace: Duration) -> Result<(), LoopError> {
    if event_loop.tasks().is_empty() {
        // Done callbacks of the last run, and what other threads have sent, still get their turn.
        return event_loop.run_once(Some(Duration::ZERO)).map(drop);
    }
    let mut ending = pin!(timeout(grace, cancel_all(event_loop.loop_ref())));
    let ended = loop {
        match event_loop.run_until_complete(ending.as_mut()) {
            // A clean-up may stop the loop; there is nothing else to go on with.
            Err(LoopError::StoppedEarly) => {}
            // In virtual time the grace may never pass.
            Err(LoopError::Deadlock(_)) => break false,
            outcome => break outcome?.unwrap_or(false),
        }
    };
    if !ended {
        for task in event_loop.tasks() {
            let message = "task did not end in its grace period and is aborted";
            let mut context = ExceptionContext::warning(message);
            context.task = Some(task.clone());
            event_loop.report(&context);
            task.abort();
        }
    }
    // Bodies are dropped by one iteration, done callbacks run by the next.
    event_loop.run_once(Some(Duration::ZERO))?;
    event_loop.run_once(Some(Duration::ZERO))?;
    Ok(())
}

/// Cancels every task but the running one, each once, and waits for them, also for those that they leave behind.
/// Whether all have ended.
async fn cancel_all(lp: LoopRef) -> bool {
    let mut asked = HashSet::new();
    for _ in 0..ROUNDS {
        // Another one after each stop of the loop.
        asked.extend(current_task().map(|itself| itself.id()));
        let mut left = lp.tasks();
        left.retain(|task| asked.insert(task.id()));
        if left.is_empty() {
            return true;
        }
        for task in &left {
            task.cancel();
        }
        for task in left {
            task.watch().await;
        }
    }
    false
}

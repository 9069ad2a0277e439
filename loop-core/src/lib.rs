//! asyncio's event loop, native: callbacks, timers, readiness, tasks and calls from other threads on
//! one ready queue, in one documented order, on one thread.
//!
//! # Start here
//!
//! An asynchronous program is one call of [`run`]:
//!
//! ```
//! use loop_core::{run, sleep, spawn};
//! use std::time::Duration;
//!
//! run(async {
//!     let slow = spawn(async {
//!         sleep(Duration::from_millis(2)).await;
//!         "world"
//!     });
//!     println!("hello");
//!     println!("{}", slow.await.unwrap());
//! })?;
//! # Ok::<(), loop_core::LoopError>(())
//! ```
//!
//! Underneath is an [`EventLoop`], which also works without any `async`: [`LoopRef::call_soon`],
//! [`LoopRef::call_later`], [`LoopRef::add_reader`], [`LoopRef::add_signal_handler`], and
//! [`Remote::call_soon`] from other threads. Tasks and callbacks share one queue, so mixing the two
//! keeps a defined order.
//!
//! # One iteration
//!
//! A loop repeats these phases; programs may rely on them:
//!
//! 1. cancelled timers are purged;
//! 2. changed interests go to the selector, one call a descriptor at most;
//! 3. the timeout is computed: zero if anything is ready, else up to the nearest deadline;
//! 4. the selector waits;
//! 5. what happened joins the ready queue: calls from other threads, signals, I/O, then due timers;
//! 6. exactly what is in the queue now is run. What that schedules waits for the next iteration, but for what it puts
//!    off until the end of this one ([`LoopRef::call_before_wait`]).
//!
//! # Promises
//!
//! - No borrow of the loop is held while user code runs, destructors of closures included: anything
//!   may be called from anywhere on the loop's thread.
//! - A panic or an `Err` in a callback, and a panic in a task, is reported
//!   ([`LoopRef::set_exception_handler`]) and ends nothing else. With `panic = "abort"` there is
//!   nothing to catch and none of this applies: a panic ends the program, and failures that are to be
//!   reported are returned as `Err` (B-EXC-09).
//! - Cancelling drops: a cancelled callback's closure at once, a cancelled task's body in its next
//!   step, with the loop usable. What wants to survive that says so: [`catch_cancelled`].
//!
//! Coming from elsewhere? [From asyncio](coming_from::asyncio), [from tokio](coming_from::tokio).
//!
//! # Map
//!
//! | for | see |
//! |---|---|
//! | running and closing | [`run`], [`Runner`], [`EventLoop`], [`Builder`], [`interrupted`] |
//! | being hosted by another loop | [`EventLoop::prepare_wait`], [`EventLoop::as_fd`], [`HostWaker`], [`RunScope`] |
//! | scheduling on the loop's thread | [`LoopRef`] |
//! | gathering work until the end of an iteration | [`LoopRef::call_before_wait`], [`BeforeWait`] |
//! | latency and throughput of a busy loop | [`Builder::busy_poll`], [`Builder::coalesce`], [`Builder::poll_every`] |
//! | scheduling from other threads | [`Remote`], [`Remote::spawn`], [`RemoteFuture`], [`LoopRef::wrap_future`] |
//! | tasks and results | [`spawn`], [`TaskBuilder`], [`Task`], [`LoopFuture`] |
//! | being cancelled, and cleaning up | [`catch_cancelled`], [`on_cancel`], [`protect`], [`shield`], [`Task::cancel`] |
//! | tasks that belong together | [`TaskGroup`] |
//! | several tasks at once | [`gather`], [`try_gather`], [`wait`](wait()), [`as_completed`], [`staggered_race`] |
//! | time | [`sleep`], [`timeout`], [`timeout_scope`], [`TimerHandle::reschedule`], [`delay_from_secs_f64`], [`Clock`], [`VirtualClock`] |
//! | virtual time, in tests | [`Builder::simulated`], [`AutoJump`], [`Deadlock`] |
//! | values with a deadline each | [`DelayQueue`] |
//! | waiting for other tasks | [`sync`] |
//! | blocking work | [`to_thread`], [`LoopRef::run_blocking`], [`ThreadPool`] |
//! | descriptors | [`LoopRef::add_reader`], [`LoopRef::readable`], [`IoHandler`] |
//! | what the loop is doing | [`LoopRef::dump`], [`dump_all`], [`LoopRef::dump_on_signal`], [`Task::call_graph`] |
//! | how it is doing | [`LoopRef::statistics`], [`LoopRef::start_watchdog`], [`LoopRef::set_debug`] |
//! | what went wrong | [`ExceptionContext`], [`LoopError`], [`TaskError`] |

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[macro_use]
mod loss;

mod awaited;
mod before_wait;
mod builder;
mod busy_poll;
mod cancel;
mod clock;
mod coalesce;
mod combine;
pub mod coming_from;
mod current;
mod debug;
mod delay;
mod delay_queue;
mod error;
mod event_loop;
mod executor;
mod fd_ready;
mod finished;
mod fresh_sleep;
mod future;
mod guard;
mod guest;
mod host_waker;
mod inbox;
mod inner;
mod interrupted;
mod interrupts;
mod introspect;
mod io_table;
mod loop_ref;
mod loops;
mod one_waiter;
mod pace;
mod readers;
mod readiness;
mod ready;
#[cfg(doctest)]
mod refused;
mod remote;
mod remote_future;
mod report;
mod run_once;
mod runner;
mod signals;
mod sim;
mod sleep;
mod stats;
pub mod sync;
mod task;
#[cfg(feature = "tracing")]
mod trace;
mod waiters;
mod watchdog;
mod wrap_future;

pub use awaited::{Awaited, Listing};
pub use before_wait::BeforeWait;
pub use builder::Builder;
pub use cancel::{
    Cancelled, CatchCancelled, ChildError, GroupError, GroupScope, NotActive, Protect, TaskGroup,
    Timeout, TimeoutScope, TimeoutScoped, catch_cancelled, on_cancel, protect, raise_cancelled,
    timeout, timeout_at, timeout_scope, wait_for,
};
pub use clock::{Clock, MonotonicClock, VirtualClock};
pub use combine::{
    AsCompleted, AsCompletedWithin, Gather, GatherSettled, RaceOutcome, Wait, WaitUntil, Waited,
    as_completed, gather, gather_settled, staggered_race, try_gather, wait,
};
pub use delay::{InvalidDelay, delay_from_secs_f64};
pub use delay_queue::{DelayKey, DelayQueue, Expirations, Expired};
pub use error::{
    Closed, Elapsed, FutureError, InvalidState, LoopAbort, LoopError, PanicError, TaskError,
};
pub use event_loop::EventLoop;
pub use executor::{BlockingTask, Executor, ExecutorTimeout, Job, Refused, ThreadPool, to_thread};
pub use fd_ready::FdReady;
pub use future::{CompleteError, LoopFuture, SharedError};
pub use guard::{HeldPanic, catch_panic, hold_panic};
pub use guest::{RunScope, Turn};
pub use host_waker::HostWaker;
pub use interrupted::interrupted;
pub use introspect::{
    CallGraph, DescriptorInfo, Dump, DumpAll, TaskInfo, TaskState, TimerInfo, TimerKind, WaitsFor,
    call_graph, dump_all,
};
pub use loop_ref::LoopRef;
pub use readiness::IoHandler;
pub use remote::Remote;
pub use remote_future::{RemoteError, RemoteFuture};
pub use report::{ExceptionContext, ExceptionHandler, Failure, Severity};
pub use runner::{Runner, RunnerBuilder, run};
pub use sim::{AutoJump, Deadlock, SimSelector, TimeHold};
pub use sleep::{Sleep, YieldNow, sleep, sleep_until, yield_now};
pub use stats::{LagHistogram, Statistics};
pub use task::{
    Awaiter, EagerSpawn, Shield, SpawnHook, Task, TaskBody, TaskBuilder, TaskRef, Watch,
    current_task, shield, spawn,
};
pub use waiters::CallbackId;
pub use watchdog::{Stuck, StuckIn, Watchdog};

#[doc(no_inline)]
pub use loop_handle::{
    Cancel, CancelOnDrop, Context, ContextVar, Handle, Outcome, Snapshot, ThreadsafeHandle,
    TimerHandle,
};
#[doc(no_inline)]
pub use loop_selector::{
    AsSource, Interest, Readiness, RegisterError, Selector, Signal, Token, default_selector,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

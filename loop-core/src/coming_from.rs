//! For those who come from asyncio or from tokio: what is called what, and where things differ.
//!
//! Everything here is compiled and run with the tests.

/// # Coming from asyncio
///
/// The names are the same wherever the thing is. What has no place in Rust is left out, and what Python
/// does at run time the compiler often does here.
///
/// | asyncio | here |
/// |---|---|
/// | `asyncio.run(main())` | [`run`](crate::run)`(main())`, [`Runner`](crate::Runner) |
/// | `loop = asyncio.new_event_loop()` | [`EventLoop::new`](crate::EventLoop::new), [`EventLoop::builder`](crate::EventLoop::builder) |
/// | `get_running_loop()` | [`LoopRef::current`](crate::LoopRef::current), [`try_current`](crate::LoopRef::try_current) |
/// | `loop.call_soon`, `call_later`, `call_at` | [the](crate::LoopRef::call_soon) [same](crate::LoopRef::call_later) [names](crate::LoopRef::call_at) |
/// | `handle.cancel()`, then `call_later` anew | [`TimerHandle::reschedule`](crate::TimerHandle::reschedule) |
/// | `loop.call_soon_threadsafe` | [`Remote::call_soon`](crate::Remote::call_soon) |
/// | `run_coroutine_threadsafe`, `wrap_future` | [`Remote::spawn`](crate::Remote::spawn), [`LoopRef::wrap_future`](crate::LoopRef::wrap_future) |
/// | `create_task(c, name=…)` | [`spawn`](crate::spawn)`(c)`, [`TaskBuilder`](crate::TaskBuilder) |
/// | `gather`, `wait`, `as_completed` | [`gather`](crate::gather), [`wait`](crate::wait()), [`as_completed`](crate::as_completed) |
/// | `gather(return_exceptions=True)` | [`gather_settled`](crate::gather_settled) |
/// | `async with TaskGroup() as g` | [`TaskGroup::scope`](crate::TaskGroup::scope) |
/// | `async with timeout(5)`, `wait_for` | [`timeout`](crate::timeout), [`timeout_scope`](crate::timeout_scope) (with `reschedule`), [`wait_for`](crate::wait_for) |
/// | `current_task()`, `all_tasks()` | [`current_task`](crate::current_task), [`LoopRef::tasks`](crate::LoopRef::tasks) |
/// | `loop.time()` | [`LoopRef::now`](crate::LoopRef::now) |
/// | `contextvars` | [`ContextVar`](crate::ContextVar), [`Context`](crate::Context) |
/// | `shield(task)` | [`shield`](crate::shield) |
/// | `except CancelledError` | [`catch_cancelled`](crate::catch_cancelled), [`on_cancel`](crate::on_cancel) |
/// | `to_thread`, `run_in_executor` | [`to_thread`](crate::to_thread), [`LoopRef::run_blocking`](crate::LoopRef::run_blocking) |
/// | `asyncio.Future` | [`LoopFuture`](crate::LoopFuture); [`into_result`](crate::LoopFuture::into_result) for values that are not `Clone` |
/// | `Lock`, `Event`, `Condition`, `Semaphore`, `Barrier`, `Queue` | [`sync`](crate::sync) |
/// | `loop.add_reader`, `add_signal_handler` | [the](crate::LoopRef::add_reader) [same](crate::LoopRef::add_signal_handler) |
/// | `loop.set_exception_handler`, `set_debug` | [the](crate::LoopRef::set_exception_handler) [same](crate::LoopRef::set_debug) |
/// | `capture_call_graph`, `python -m asyncio pstree` | [`call_graph`](crate::call_graph), [`LoopRef::dump`](crate::LoopRef::dump), [`dump_on_signal`](crate::LoopRef::dump_on_signal) |
/// | `transport`, `protocol`, streams | in loop-net |
///
/// ## Awaiting starts, and so does `spawn`
///
/// As in Python, an async function that is not awaited does nothing, and a spawned one runs by itself. A task
/// is never forgotten: the loop owns it until it ends, so no reference must be kept (asyncio keeps weak
/// ones only).
///
/// ```
/// use loop_core::{run, sleep, spawn};
/// use std::time::Duration;
///
/// async fn say(what: &str, after: u64) -> &str {
///     sleep(Duration::from_millis(after)).await;
///     what
/// }
///
/// run(async {
///     let world = spawn(say("world", 2)); // asyncio.create_task(say("world", 0.002))
///     println!("{} {}", say("hello", 1).await, world.await?);
///     Ok::<(), loop_core::TaskError>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ## Cancelling
///
/// `task.cancel()` is a request, delivered at the task's next step. What it interrupts is *dropped*, as if a
/// `finally` had run without an `await`. Code that wants to clean up with further awaits puts a catch point
/// around what may be interrupted, and then decides:
///
/// ```
/// use loop_core::{catch_cancelled, run, sleep, spawn, yield_now};
/// use std::time::Duration;
///
/// run(async {
///     let task = spawn(async {
///         match catch_cancelled(sleep(Duration::from_secs(3600))).await { // try: await sleep(3600)
///             Ok(()) => "slept",
///             Err(cancelled) => {                                         // except CancelledError:
///                 sleep(Duration::from_millis(1)).await;                  //     await asyncio.sleep(0.001)
///                 cancelled.propagate().await                             //     raise
///             }
///         }
///     });
///     yield_now().await; // await asyncio.sleep(0)
///     task.cancel();
///     assert!(task.await.unwrap_err().is_cancelled());
/// })?;
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// `swallow()` in place of `propagate()` is an `except` that does not raise again. There is no `uncancel`
/// arithmetic to do: a time limit and a group know their own requests from others'.
///
/// ## Groups
///
/// ```
/// use loop_core::{GroupError, TaskGroup, run, sleep};
/// use std::time::Duration;
///
/// async fn fetch(page: u32) -> Result<u32, String> {
///     sleep(Duration::from_millis(page.into())).await;
///     if page == 3 { Err("no such page".into()) } else { Ok(page) }
/// }
///
/// run(async {
///     let failed: GroupError<String> = TaskGroup::scope(async |group| {
///         for page in [1, 2, 3, 3600] {
///             group.spawn(fetch(page)); // the first to fail cancels the rest
///         }
///         Ok(())
///     })
///     .await
///     .unwrap_err(); // except* ...
///     assert_eq!(failed.errors.len(), 1);
/// })?;
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// ## What differs
///
/// - An exception is an `Err` or a panic here. A panic ends its task, not the loop; unread it is reported, as
///   Python's "exception was never retrieved" is, but when the handle goes, not when the garbage collector
///   comes. An `Err` is a value like others: a task that is to report it is told by
///   [`report_errors`](crate::Task::report_errors).
/// - Dropping a [`Task`](crate::Task) that was awaited passes the caller's end on to it; one that nobody has
///   awaited runs on.
/// - [`LoopRef`](crate::LoopRef) cannot leave its thread, so "called from the wrong thread" is an error of the
///   compiler.
/// - A descriptor that is registered cannot be closed: the loop shares its ownership.
/// - Delays are [`Duration`](std::time::Duration)s, and times are [`Instant`](std::time::Instant)s of the loop's
///   clock; [`delay_from_secs_f64`](crate::delay_from_secs_f64) makes one of a number.
pub mod asyncio {}

/// # Coming from tokio
///
/// The nearest thing is a `current_thread` runtime with a `LocalSet`, entered once and for all. There is no
/// work stealing: a program that wants several processors runs a loop a thread.
///
/// | tokio | here |
/// |---|---|
/// | `#[tokio::main(flavor = "current_thread")]` | [`run`](crate::run) |
/// | `Runtime`, `block_on` | [`EventLoop`](crate::EventLoop), [`run_until_complete`](crate::EventLoop::run_until_complete) |
/// | `Handle` | [`LoopRef`](crate::LoopRef) on the loop's thread, [`Remote`](crate::Remote) elsewhere |
/// | `spawn_local`, `JoinHandle` | [`spawn`](crate::spawn), [`Task`](crate::Task) |
/// | `handle.spawn` from a thread | [`Remote::spawn`](crate::Remote::spawn) |
/// | `JoinSet` | [`TaskGroup`](crate::TaskGroup), or [`as_completed`](crate::as_completed) |
/// | `AbortHandle::abort` | [`Task::abort`](crate::Task::abort); [`Task::cancel`](crate::Task::cancel) asks first |
/// | `CancellationToken` | [`Task::cancel`](crate::Task::cancel) and [`catch_cancelled`](crate::catch_cancelled), without passing a token |
/// | `spawn_blocking` | [`to_thread`](crate::to_thread) |
/// | `time::sleep`, `timeout` | [`sleep`](crate::sleep), [`timeout`](crate::timeout) |
/// | `Sleep::reset` | [`TimeoutScope::reschedule`](crate::TimeoutScope::reschedule), or [`TimerHandle::reschedule`](crate::TimerHandle::reschedule) of a callback |
/// | `event_interval` | [`Builder::poll_every`](crate::Builder::poll_every), which counts iterations |
/// | `time::pause`, `start_paused` | [`Builder::simulated`](crate::Builder::simulated), [`Builder::virtual_time`](crate::Builder::virtual_time) |
/// | `DelayQueue` of tokio-util | [`DelayQueue`](crate::DelayQueue) |
/// | `sync::Mutex`, `Semaphore`, `Barrier` | [`sync::Lock`](crate::sync::Lock), [`Semaphore`](crate::sync::Semaphore), [`Barrier`](crate::sync::Barrier) |
/// | `sync::Notify`, `watch` | [`sync::Event`](crate::sync::Event), [`Condition`](crate::sync::Condition) |
/// | `mpsc` inside one thread | [`sync::Queue`](crate::sync::Queue) |
/// | `mpsc`, `oneshot` across threads | theirs: any channel that wakes wakers works here |
/// | `task_local!` | [`ContextVar`](crate::ContextVar) |
/// | `AsyncFd`, `TcpStream`, `process` | in loop-net |
/// | `signal::ctrl_c` | [`interrupted`](crate::interrupted) |
/// | `signal::unix` | [`LoopRef::add_signal_handler`](crate::LoopRef::add_signal_handler) |
/// | console, task dumps, metrics | [`LoopRef::dump`](crate::LoopRef::dump), [`LoopRef::statistics`](crate::LoopRef::statistics), on stable |
///
/// ## `!Send` all the way
///
/// ```
/// use loop_core::{run, spawn, sync::Queue};
/// use std::rc::Rc;
///
/// run(async {
///     let queue = Rc::new(Queue::new()); // no Arc, no Mutex
///     let source = queue.clone();
///     let producer = spawn(async move {
///         for n in 0..3 {
///             source.put(n).await.unwrap();
///         }
///     });
///     for n in 0..3 {
///         assert_eq!(queue.get().await, Ok(n));
///     }
///     producer.await.unwrap();
/// })?;
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// ## `select!` and friends
///
/// Futures here are plain futures: `select!`, `join!` and `FuturesUnordered` of the `futures` crate work, and
/// each function's documentation says what dropping it loses. Around one task, a limit or a group says the same
/// with less:
///
/// ```
/// use loop_core::{run, sleep, timeout};
/// use std::time::Duration;
///
/// run(async {
///     let late = timeout(Duration::from_millis(1), sleep(Duration::from_secs(3600))).await;
///     assert!(late.is_err());
/// })?;
/// # Ok::<(), loop_core::LoopError>(())
/// ```
///
/// ## Time in tests
///
/// Time is the loop's, not the process's, and jumps by itself where the loop would only wait. What can never end
/// is an error that says why:
///
/// ```
/// use loop_core::{EventLoop, LoopError, sleep, spawn, sync::Lock};
/// use std::{rc::Rc, time::Duration};
///
/// let mut event_loop = EventLoop::builder().simulated()?.build()?;
/// event_loop.run_until_complete(sleep(Duration::from_secs(3600)))?; // takes no time
///
/// let stuck = event_loop.run_until_complete(async {
///     let lock = Rc::new(Lock::new());
///     let held = lock.acquire().await;
///     let other = lock.clone();
///     let task = spawn(async move { drop(other.acquire().await) });
///     task.await.unwrap(); // while `held` lives
///     drop(held);
/// });
/// let Err(LoopError::Deadlock(deadlock)) = stuck else { panic!("it ends") };
/// assert!(deadlock.to_string().contains("waits for lock created at"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ## What differs
///
/// - A task is polled on its loop's thread, in the order in which it was woken, callbacks among tasks. There is no
///   budget: a task that is always ready still gives way once an iteration, because what it wakes waits for the
///   next one.
/// - Dropping a handle does not always detach: one that was awaited and is dropped before its end cancels its task, so
///   that a cancelled caller takes its callee with it. [`Task::detach`](crate::Task::detach) says otherwise.
/// - A panic in a task is its awaiter's to see, and is reported if nobody is left to.
/// - Libraries that need tokio's reactor need tokio's: [`EventLoop`](crate::EventLoop) can be the guest of a tokio
///   runtime, by its descriptor.
pub mod tokio {}

//! What the compiler refuses, as tests. Functions bear the ids of what they show, for `cargo test` to list.

/// A callback cannot nest a run (B-LOOP-10):
///
/// ```compile_fail,E0502
/// let mut event_loop = loop_core::EventLoop::new().unwrap();
/// event_loop.run_until_complete(async { event_loop.run_forever().unwrap() }).unwrap();
/// ```
///
/// ```compile_fail,E0596
/// let event_loop = loop_core::EventLoop::new().unwrap();
/// let lp = event_loop.loop_ref();
/// event_loop.call_soon(move || lp.run_forever().unwrap());
/// ```
pub fn b_loop_10_a_callback_cannot_nest_a_run() {}

/// A running loop cannot be closed (B-LOOP-20):
///
/// ```compile_fail,E0502
/// let mut event_loop = loop_core::EventLoop::new().unwrap();
/// event_loop.run_until_complete(async { drop(&mut event_loop) }).unwrap();
/// ```
///
/// ```compile_fail,E0505
/// let mut event_loop = loop_core::EventLoop::new().unwrap();
/// event_loop.run_until_complete(async move { drop(event_loop) }).unwrap();
/// ```
pub fn b_loop_20_a_running_loop_cannot_be_closed() {}

/// A runner that was closed is gone (B-RUN-07):
///
/// ```compile_fail,E0382
/// let mut runner = loop_core::Runner::new();
/// runner.close().unwrap();
/// runner.run(async {}).unwrap();
/// ```
pub fn b_run_07_a_runner_that_was_closed_is_gone() {}

/// A loop and its tasks stay on their thread; `Remote` is the way in from others (B-DBG-03):
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::LoopRef>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::EventLoop>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::Task<u32>>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::LoopFuture<u32>>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::Cancelled>();
/// ```
///
/// ```compile_fail,E0277
/// let remote = loop_core::EventLoop::new().unwrap().remote();
/// let not_send = std::rc::Rc::new(());
/// remote.call_soon(move || drop(not_send)).unwrap();
/// ```
///
/// ```compile_fail,E0277
/// let remote = loop_core::EventLoop::new().unwrap().remote();
/// let _ = remote.spawn(|| async { std::rc::Rc::new(()) });
/// ```
///
/// ```
/// fn is_send_and_sync<T: Send + Sync>() {}
/// is_send_and_sync::<loop_core::Remote>();
/// is_send_and_sync::<loop_core::RemoteFuture<std::cell::Cell<u32>>>();
/// is_send_and_sync::<loop_core::RemoteError>();
/// is_send_and_sync::<loop_core::Sleep>();
/// is_send_and_sync::<loop_core::Timeout<loop_core::Sleep>>();
/// is_send_and_sync::<loop_core::CatchCancelled<loop_core::Sleep>>();
/// is_send_and_sync::<loop_core::Protect<loop_core::Sleep>>();
/// is_send_and_sync::<loop_core::LoopError>();
/// is_send_and_sync::<loop_core::TaskError>();
/// is_send_and_sync::<loop_core::PanicError>();
/// ```
pub fn b_dbg_03_a_loop_stays_on_its_thread() {}

/// What the loop keeps must own what it uses, while the future of `run_until_complete` may borrow:
///
/// ```compile_fail,E0373
/// let event_loop = loop_core::EventLoop::new().unwrap();
/// let local = 1;
/// event_loop.spawn(async { println!("{local}") }).detach();
/// ```
///
/// ```compile_fail,E0373
/// let event_loop = loop_core::EventLoop::new().unwrap();
/// let local = 1;
/// event_loop.call_soon(|| println!("{local}"));
/// ```
///
/// ```
/// let mut event_loop = loop_core::EventLoop::new().unwrap();
/// let mut local = 1;
/// event_loop.run_until_complete(async { local += 1 }).unwrap();
/// assert_eq!(local, 2);
/// ```
pub fn what_the_loop_keeps_owns_what_it_uses() {}

/// Only a pool of threads can be the default executor (B-EXE-04):
///
/// ```compile_fail,E0308
/// struct Mine;
/// impl loop_core::Executor for Mine {
///     fn execute(&self, job: loop_core::Job) -> Result<(), loop_core::Refused> {
///         job();
///         Ok(())
///     }
/// }
/// loop_core::EventLoop::new().unwrap().set_default_executor(Mine);
/// ```
///
/// ```
/// let pool = loop_core::ThreadPool::new(1.try_into().unwrap());
/// loop_core::EventLoop::new().unwrap().set_default_executor(pool);
/// ```
pub fn b_exe_04_only_a_pool_of_threads_is_a_default_executor() {}

/// What waits under a lock, and what notifies, shows that it has the lock (B-COND-01):
///
/// ```compile_fail,E0061
/// let changed = loop_core::sync::Condition::new();
/// changed.notify_all();
/// ```
///
/// ```compile_fail,E0061
/// let changed = loop_core::sync::Condition::new();
/// let _ = changed.wait();
/// ```
///
/// One that was given to a wait is gone, until the wait gives it back:
///
/// ```compile_fail,E0382
/// # loop_core::run(async {
/// let (lock, changed) = (loop_core::sync::Lock::new(), loop_core::sync::Condition::new());
/// let held = lock.acquire().await;
/// let _waits = changed.wait(held);
/// changed.notify_all(&held);
/// # }).unwrap();
/// ```
pub fn b_cond_01_waiting_and_notifying_need_the_lock() {}

/// Primitives stay on the thread of the tasks that use them (B-LOCK-08):
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::sync::Lock>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<loop_core::sync::Lock>();
/// ```
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<loop_core::sync::Queue<u32>>();
/// ```
pub fn b_lock_08_a_lock_stays_on_its_thread() {}

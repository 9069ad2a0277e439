//! What the compiler refuses, as tests.

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
pub struct NestedRun;

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
pub struct CloseWhileRunning;

/// A runner that was closed is gone (B-RUN-07):
///
/// ```compile_fail,E0382
/// let mut runner = loop_core::Runner::new();
/// runner.close().unwrap();
/// runner.run(async {}).unwrap();
/// ```
pub struct RunAfterClose;

/// A loop and its tasks stay on their thread; `Remote` is the way in from others:
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
pub struct Threads;

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
pub struct Lifetimes;

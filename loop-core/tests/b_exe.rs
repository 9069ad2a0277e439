//! Blocking work on threads.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use loop_core::{
    ContextVar, EventLoop, Executor, ExecutorTimeout, Job, LoopRef, Refused, TaskError, ThreadPool,
    run, sleep, spawn, timeout, to_thread, yield_now,
};

fn one() -> NonZeroUsize {
    NonZeroUsize::MIN
}

#[test]
fn b_exe_01_the_job_runs_on_a_named_pool_thread() {
    let here = thread::current().id();
    run(async move {
        let (id, name) =
            to_thread(|| (thread::current().id(), thread::current().name().map(str::to_owned)))
                .await
                .unwrap();
        assert_ne!(id, here);
        assert!(name.unwrap().starts_with("loop-worker-"));
    })
    .unwrap();
}

#[test]
fn b_exe_02_a_job_given_up_before_it_started_never_runs() {
    let mut event_loop = EventLoop::new().unwrap();
    event_loop.set_default_executor(ThreadPool::new(one()));
    let (release, blocked) = mpsc::channel::<()>();
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = ran.clone();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async move {
            let blocker = lp.run_blocking(move || blocked.recv().unwrap());
            let queued = lp.run_blocking(move || counter.fetch_add(1, SeqCst));
            drop(queued);
            release.send(()).unwrap();
            blocker.await.unwrap();
            lp.shutdown_default_executor(None).await.unwrap();
        })
        .unwrap();
    assert_eq!(ran.load(SeqCst), 0);
}

#[test]
fn b_exe_02_a_job_that_started_runs_on_and_its_result_is_dropped() {
    let (entered, has_entered) = mpsc::channel();
    let (release, blocked) = mpsc::channel::<()>();
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let result = Counted(dropped.clone());
    run(async move {
        let job = to_thread(move || {
            entered.send(()).unwrap();
            blocked.recv().unwrap();
            result
        });
        has_entered.recv().unwrap();
        // Timing out does not stop the thread.
        assert!(timeout(Duration::from_millis(1), job).await.is_err());
        release.send(()).unwrap();
    })
    .unwrap(); // waits for the threads
    assert_eq!(dropped.load(SeqCst), 1);
}

#[test]
fn b_exe_02_results_after_the_loop_closed_are_dropped_quietly() {
    let (entered, has_entered) = mpsc::channel();
    let (release, blocked) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel();
    let mut event_loop = EventLoop::new().unwrap();
    let lp = event_loop.loop_ref();
    let job = lp.run_blocking(move || {
        entered.send(()).unwrap();
        blocked.recv().unwrap();
        done.send(()).unwrap();
    });
    let task = lp.spawn(job);
    event_loop.run_once(Some(Duration::ZERO)).unwrap();
    has_entered.recv().unwrap();
    task.cancel(); // so that closing has nothing to report
    event_loop.close();
    release.send(()).unwrap();
    is_done.recv_timeout(Duration::from_secs(10)).expect("the job runs on");
}

#[test]
fn b_exe_03_a_panic_in_the_job_is_the_outcome() {
    run(async {
        match to_thread(|| -> u8 { panic!("in the job") }).await {
            Err(TaskError::Panicked(panic)) => assert_eq!(panic.message(), "in the job"),
            other => panic!("{other:?}"),
        }
        assert_eq!(to_thread(|| 1).await.unwrap(), 1, "the thread lives on");
    })
    .unwrap();
}

#[test]
fn b_exe_05_after_the_shutdown_submissions_fail_and_explicit_executors_work() {
    let mut event_loop = EventLoop::new().unwrap();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async move {
            let (release, blocked) = mpsc::channel::<()>();
            let waiting = spawn(lp.run_blocking(move || blocked.recv().unwrap()));
            yield_now().await;
            // The loop is not blocked meanwhile: it ends what the shutdown waits for.
            lp.call_soon(move || release.send(()));
            lp.shutdown_default_executor(None).await.unwrap();
            waiting.await.unwrap().unwrap();
            assert!(matches!(lp.run_blocking(|| ()).await, Err(TaskError::Closed)));
            let own = ThreadPool::new(one());
            assert_eq!(lp.run_blocking_on(&own, || 2).await.unwrap(), 2);
        })
        .unwrap();
}

#[test]
fn b_exe_06_a_shutdown_that_takes_too_long_is_abandoned_with_a_warning() {
    let mut event_loop = EventLoop::new().unwrap();
    let warnings = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = warnings.clone();
    event_loop.set_exception_handler(Some(std::rc::Rc::new(move |_: &LoopRef, _: &_| {
        seen.set(seen.get() + 1);
    })));
    let (release, blocked) = mpsc::channel::<()>();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async move {
            let stuck = lp.run_blocking(move || blocked.recv());
            let limit = Some(Duration::from_millis(10));
            assert_eq!(lp.shutdown_default_executor(limit).await, Err(ExecutorTimeout));
            release.send(()).unwrap();
            stuck.await.unwrap().unwrap();
        })
        .unwrap();
    assert_eq!(warnings.get(), 1);
}

#[test]
fn b_exe_07_without_an_executor_the_shutdown_returns_at_once_and_forbids_one() {
    let mut event_loop = EventLoop::new().unwrap();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async move {
            lp.shutdown_default_executor(None).await.unwrap();
            assert!(matches!(lp.run_blocking(|| ()).await, Err(TaskError::Closed)));
        })
        .unwrap();
}

#[test]
fn b_exe_07_closing_never_waits_for_the_pool() {
    let (release, blocked) = mpsc::channel::<()>();
    let mut event_loop = EventLoop::new().unwrap();
    let job = event_loop.run_blocking(move || blocked.recv());
    event_loop.close(); // would hang here
    release.send(()).unwrap();
    drop(job);
}

#[test]
fn b_exe_08_to_thread_runs_beside_the_loop_in_a_copy_of_the_context() {
    static NAME: ContextVar<&'static str> = ContextVar::new();
    run(async {
        NAME.set("caller");
        let (release, blocked) = mpsc::channel::<()>();
        let job = spawn(to_thread(move || {
            blocked.recv().unwrap();
            let seen = NAME.get();
            NAME.set("thread");
            seen
        }));
        sleep(Duration::from_millis(1)).await; // the loop runs while the thread waits
        release.send(()).unwrap();
        assert_eq!(job.await.unwrap().unwrap(), Some("caller"));
        assert_eq!(NAME.get(), Some("caller"));
    })
    .unwrap();
}

#[test]
fn a_pool_starts_threads_only_as_it_needs_them_and_no_more_than_told() {
    let pool = ThreadPool::new(NonZeroUsize::new(3).unwrap());
    assert_eq!(pool.threads(), 0);
    let names = Arc::new(Mutex::new(HashSet::new()));
    let mut event_loop = EventLoop::new().unwrap();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async {
            let jobs: Vec<_> = (0..50)
                .map(|_| {
                    let names = names.clone();
                    lp.run_blocking_on(&pool, move || {
                        names.lock().unwrap().insert(thread::current().id());
                    })
                })
                .collect();
            for job in jobs {
                job.await.unwrap();
            }
        })
        .unwrap();
    assert!(names.lock().unwrap().len() <= 3);
    assert!((1..=3).contains(&pool.threads()), "{pool:?}");
}

#[test]
fn a_pluggable_executor_gets_the_job_and_a_refused_one_ends_closed() {
    struct Inline;
    impl Executor for Inline {
        fn execute(&self, job: Job) -> Result<(), Refused> {
            thread::spawn(job).join().unwrap();
            Ok(())
        }
    }
    struct Never;
    impl Executor for Never {
        fn execute(&self, job: Job) -> Result<(), Refused> {
            Err(Refused { job, error: std::io::Error::other("never") })
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async move {
            assert_eq!(lp.run_blocking_on(&Inline, || 3).await.unwrap(), 3);
            assert!(matches!(lp.run_blocking_on(&Never, || 3).await, Err(TaskError::Closed)));
        })
        .unwrap();
}

#[test]
fn a_job_that_panics_costs_the_pool_no_thread() {
    let mut event_loop = EventLoop::new().unwrap();
    let pool = ThreadPool::new(one());
    pool.execute(Box::new(|| panic!("a bare job"))).unwrap();
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async {
            assert_eq!(lp.run_blocking_on(&pool, || 4).await.unwrap(), 4);
            assert_eq!(pool.threads(), 1);
            lp.set_default_executor(pool);
            lp.shutdown_default_executor(None).await.unwrap(); // would wait for a lost thread
        })
        .unwrap();
}

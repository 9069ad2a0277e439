//! Debug mode.

mod common;

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use common::{Trace, pair, reports, turn};
use loop_core::{
    Clock, EventLoop, ExceptionContext, Interest, LoopFuture, Selector, Severity, Signal,
    SpawnHook, TaskBody, TaskBuilder, TaskRef, VirtualClock, default_selector,
};
use loop_selector::{Events, forward_selector};
use std::io::{self, Write};

#[test]
fn b_dbg_01_off_by_default_on_by_builder_and_setter() {
    assert!(!EventLoop::builder().debug(false).build().unwrap().debug());
    let mut event_loop = EventLoop::builder().debug(true).build().unwrap();
    assert!(event_loop.debug());
    let lp = event_loop.loop_ref();
    event_loop.call_soon(move || {
        lp.set_debug(false);
        assert!(!lp.debug());
        lp.set_debug(true);
        lp.set_debug(false);
    });
    turn(&mut event_loop);
    assert!(!event_loop.debug());
}

/// Not a test of its own: what the next one runs in a process with a variable set.
#[test]
fn child_prints_debug() {
    if std::env::var_os("LOOP_CORE_CHILD").is_some() {
        let plain = EventLoop::new().unwrap().debug();
        let explicit = EventLoop::builder().debug(false).build().unwrap().debug();
        println!("plain {plain}, explicit {explicit}.");
    }
}

#[test]
fn b_dbg_01_the_environment_decides_unless_the_builder_does() {
    for (value, expected) in [("1", "plain true"), ("0", "plain false"), ("", "plain false")] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_prints_debug", "--nocapture"])
            .env("LOOP_CORE_CHILD", "1")
            .env("LOOP_DEBUG", value)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("{expected}, explicit false.")), "{value:?}: {text}");
    }
}

fn advancing_loop() -> (EventLoop, Rc<VirtualClock>, Trace) {
    let clock = Rc::new(VirtualClock::new());
    let event_loop = EventLoop::builder().clock(clock.clone()).debug(true).build().unwrap();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context: &ExceptionContext| {
        assert_eq!(context.severity, Severity::Warning);
        let who = match (&context.handle, &context.task, &context.subject) {
            (Some(handle), None, None) => format!("callback of line {}", handle.site().line()),
            (None, Some(task), None) => task.name().to_string(),
            (None, None, Some(subject)) => subject.clone(),
            other => format!("{other:?}"),
        };
        log.push(format!("{} {who} {:?}", context.message, context.duration.unwrap()));
    })));
    (event_loop, clock, trace)
}

#[test]
fn b_dbg_02_a_slow_callback_is_named_with_its_duration() {
    let (mut event_loop, clock, trace) = advancing_loop();
    assert_eq!(event_loop.slow_callback_duration(), Duration::from_millis(100));
    let slow = clock.clone();
    let line = line!() + 1;
    event_loop.call_soon(move || slow.advance(Duration::from_millis(100)));
    let fast = clock.clone();
    event_loop.call_soon(move || fast.advance(Duration::from_millis(99)));
    turn(&mut event_loop);
    assert_eq!(trace.take(), [format!("slow callback callback of line {line} 100ms")]);

    event_loop.set_slow_callback_duration(Duration::from_secs(2));
    let slow = clock.clone();
    let slower = clock.clone();
    event_loop.call_soon(move || slow.advance(Duration::from_secs(1)));
    let line = line!() + 1;
    event_loop.call_soon(move || slower.advance(Duration::from_secs(2)));
    turn(&mut event_loop);
    assert_eq!(trace.take(), [format!("slow callback callback of line {line} 2s")]);
}

#[test]
fn b_dbg_02_a_slow_step_names_its_task() {
    let (mut event_loop, clock, trace) = advancing_loop();
    let slow = clock.clone();
    let task = event_loop.spawn(async move { slow.advance(Duration::from_secs(1)) });
    task.set_name("digger");
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["slow callback digger 1s"]);
    assert!(task.is_done());
}

#[test]
fn b_dbg_02_a_slow_io_handler_names_its_descriptor() {
    use loop_core::{IoHandler, Readiness};
    use std::os::fd::AsRawFd;
    struct Slow(Rc<VirtualClock>);
    impl IoHandler for Slow {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
            self.0.advance(Duration::from_secs(1));
        }
    }
    let (mut event_loop, clock, trace) = advancing_loop();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    let fd = ours.as_raw_fd();
    event_loop.register_io(ours, Interest::READ, Rc::new(Slow(clock))).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), [format!("slow callback I/O handler of fd {fd} 1s")]);
}

#[test]
fn without_debug_mode_nothing_is_timed() {
    /// A clock that must not be asked.
    struct Untouched;
    impl Clock for Untouched {
        fn now(&self) -> std::time::Instant {
            thread_local!(static READS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
            READS.set(READS.get() + 1);
            assert!(READS.get() <= 1, "only the loop's creation reads the clock");
            std::time::Instant::now()
        }
    }
    let mut event_loop =
        EventLoop::builder().clock(Rc::new(Untouched)).debug(false).build().unwrap();
    let log = reports(&event_loop);
    event_loop.call_soon(|| ());
    event_loop.spawn(async {}).detach();
    turn(&mut event_loop);
    assert_eq!(log.take(), Vec::<String>::new());
}

#[test]
fn b_dbg_06_all_that_is_made_knows_where() {
    let mut event_loop = EventLoop::builder().debug(false).build().unwrap();
    let (ours, _theirs) = pair();
    let line = line!();
    let soon = event_loop.call_soon(|| ());
    let later = event_loop.call_later(Duration::ZERO, || ());
    let reader = event_loop.add_reader(&ours, || ()).unwrap();
    let signal = event_loop.add_signal_handler(Signal::USR2, || ()).unwrap();
    let future: LoopFuture<()> = event_loop.create_future();
    let task = event_loop.spawn(async {}).task_ref();
    let built = TaskBuilder::new().spawn_on(&event_loop, async {}).task_ref();
    let sites = [
        soon.site(),
        later.site(),
        reader.site(),
        signal.site(),
        future.site(),
        task.site(),
        built.site(),
    ];
    for (site, below) in sites.into_iter().zip(1..) {
        assert_eq!((site.file(), site.line()), (file!(), line + below));
    }
    // It outlives what it is the site of.
    turn(&mut event_loop);
    later.cancel();
    assert_eq!((soon.site().line(), task.site().line()), (line + 1, line + 6));
}

/// A whole backtrace is a matter for whoever wants to pay for it.
#[test]
fn b_dbg_06_a_spawn_hook_may_take_a_backtrace() {
    #[derive(Default)]
    struct Traces(RefCell<Vec<(u64, Backtrace)>>);
    impl SpawnHook for Traces {
        fn wrap(&self, task: &TaskRef, body: TaskBody) -> TaskBody {
            self.0.borrow_mut().push((task.id(), Backtrace::force_capture()));
            body
        }
    }
    let traces = Rc::new(Traces::default());
    let event_loop = EventLoop::new().unwrap();
    event_loop.set_spawn_hook(Some(traces.clone()));
    let task = event_loop.spawn(async {});
    let (id, trace) = traces.0.take().pop().unwrap();
    assert_eq!(id, task.id());
    let trace = trace.to_string();
    assert!(trace.contains("b_dbg_06_a_spawn_hook"), "{trace}");
}

/// A loop in debug mode whose selector takes its time on a virtual clock.
fn polling_loop(takes: Duration) -> (EventLoop, Trace) {
    let clock = Rc::new(VirtualClock::new());
    let selector = SlowSelector { inner: default_selector().unwrap(), clock: clock.clone(), takes };
    let event_loop =
        EventLoop::builder().selector(Box::new(selector)).clock(clock).debug(true).build().unwrap();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context: &ExceptionContext| {
        let ExceptionContext { severity, message, duration, .. } = context;
        log.push(format!("{severity:?} {message} {:?}", duration.unwrap()));
    })));
    (event_loop, trace)
}

#[test]
fn b_dbg_07_a_poll_is_reported_by_how_long_it_took() {
    let millis = Duration::from_millis;
    for (takes, limit, expected) in [
        (millis(10), Some(millis(10)), None),
        (millis(999), Some(millis(999)), None),
        (millis(1000), Some(millis(1000)), Some("Info poll of 1s: 0 events 1s")),
        (millis(10), Some(Duration::ZERO), None),
    ] {
        let (mut event_loop, trace) = polling_loop(takes);
        event_loop.run_once(limit).unwrap();
        assert_eq!(trace.take(), Vec::from_iter(expected), "{takes:?}");
    }
    // With something that is ready it does not only time out.
    for (takes, limit, expected) in [
        (millis(10), Some(millis(20)), "Debug poll of 20ms: 1 events 10ms"),
        (millis(2000), Some(millis(3000)), "Info poll of 3s: 1 events 2s"),
        (millis(10), None, "Debug poll without a timeout: 1 events 10ms"),
    ] {
        let (mut event_loop, trace) = polling_loop(takes);
        let (ours, mut theirs) = pair();
        event_loop.add_reader(&ours, || ()).unwrap();
        theirs.write_all(b"x").unwrap();
        event_loop.run_once(limit).unwrap();
        assert_eq!(trace.take(), [expected]);
    }
}

#[test]
fn b_dbg_07_without_debug_mode_no_poll_is_reported() {
    let (mut event_loop, trace) = polling_loop(Duration::from_secs(5));
    event_loop.set_debug(false);
    event_loop.run_once(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(trace.take(), Vec::<String>::new());
}

/// Waits by moving a clock.
struct SlowSelector {
    inner: Box<dyn Selector>,
    clock: Rc<VirtualClock>,
    takes: Duration,
}

impl Selector for SlowSelector {
    fn select(&mut self, events: &mut Events, _: Option<Duration>) -> io::Result<()> {
        self.clock.advance(self.takes);
        self.inner.select(events, Some(Duration::ZERO))
    }

    fn name(&self) -> &'static str {
        "slow"
    }

    forward_selector!(inner: register modify rearm deregister registry waker as_fd);
}

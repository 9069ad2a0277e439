//! Debug mode.

mod common;

use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use common::{Trace, pair, reports, turn};
use loop_core::{Clock, EventLoop, ExceptionContext, Severity, VirtualClock};
use std::io::Write;

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
    use loop_core::{Interest, IoHandler, Readiness};
    use std::os::fd::AsRawFd;
    struct Slow(Rc<VirtualClock>);
    impl IoHandler for Slow {
        fn ready(&self, _: Readiness, _: &mut Vec<u8>) {
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

//! What the tests share: a watchdog, traces, loops on every backend, and a selector that logs.
#![allow(dead_code)] // Each test binary uses some of it.

use std::cell::{Cell, RefCell};
#[cfg(target_os = "linux")]
use std::fs::{read_link, read_to_string};
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
#[cfg(target_os = "linux")]
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use loop_core::{
    AsSource, Builder, EventLoop, ExceptionContext, Interest, LoopRef, RegisterError, Selector,
    Token, VirtualClock,
};
use loop_selector::{Events, available, by_name, forward_selector};

/// Ends the process if it is not dropped within a minute, or within `LOOP_TEST_WATCHDOG` seconds: a hang becomes
/// a failure with a name.
pub struct Watchdog(#[allow(dead_code)] mpsc::Sender<()>);

pub fn watchdog() -> Watchdog {
    let name = std::thread::current().name().unwrap_or("main").to_owned();
    let patience = std::env::var("LOOP_TEST_WATCHDOG").ok().and_then(|text| text.parse().ok());
    let patience = Duration::from_secs(patience.unwrap_or(60));
    let (alive, gone) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if gone.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Not `eprintln`, which the harness keeps for a test that never ends.
            let _ = writeln!(io::stderr(), "{name} hangs");
            std::process::abort();
        }
    });
    Watchdog(alive)
}

/// A thread, seen from others: they can wait until it sleeps in a system call, as a loop does that has nothing
/// to do.
#[derive(Clone)]
pub struct Sleeper(#[cfg(target_os = "linux")] PathBuf);

impl Sleeper {
    /// The thread that calls.
    pub fn this_thread() -> Sleeper {
        #[cfg(target_os = "linux")]
        return Sleeper(
            Path::new("/proc").join(read_link("/proc/thread-self").unwrap()).join("stat"),
        );
        #[cfg(not(target_os = "linux"))]
        return Sleeper();
    }

    /// Returns once it sleeps. Where threads cannot be looked at, once it has very likely had the time to.
    pub fn wait(&self) {
        #[cfg(target_os = "linux")]
        loop {
            let stat = read_to_string(&self.0).unwrap();
            // The state stands behind the name, which may have anything in it.
            if stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S')) {
                return;
            }
            std::thread::yield_now();
        }
        #[cfg(not(target_os = "linux"))]
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a loop until another thread stops it, which waits until the loop sleeps.
pub fn run_until_stopped_in_sleep(event_loop: &mut EventLoop) {
    let (remote, waits) = (event_loop.remote(), Sleeper::this_thread());
    let thread = std::thread::spawn(move || {
        waits.wait();
        remote.stop().unwrap();
    });
    event_loop.run_forever().unwrap();
    thread.join().unwrap();
}

/// Runs a test on a loop of each backend.
pub fn for_each_backend(test: impl Fn(Builder)) {
    let _watchdog = watchdog();
    for name in available() {
        eprintln!("backend {name}");
        test(EventLoop::builder().selector(by_name(name).unwrap()));
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub struct Trace(Rc<RefCell<Vec<String>>>);

impl Trace {
    pub fn new() -> Trace {
        Trace::default()
    }

    pub fn push(&self, what: impl Into<String>) {
        self.0.borrow_mut().push(what.into());
    }

    /// A callback that notes that it ran.
    pub fn note(&self, what: &'static str) -> impl Fn() + 'static + use<> {
        let trace = self.clone();
        move || trace.push(what)
    }

    /// A value that notes that it was dropped.
    pub fn on_drop(&self, what: &'static str) -> OnDrop<impl FnMut() + 'static + use<>> {
        OnDrop(self.note(what))
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }
}

/// Calls its closure when it is dropped.
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Makes a closure own a value.
pub fn keep<T>(_: &T) {}

/// Replaces the exception handler by one that notes each report's message and failure.
pub fn reports(lp: &LoopRef) -> Trace {
    let trace = Trace::new();
    let log = trace.clone();
    lp.set_exception_handler(Some(Rc::new(move |_, context: &ExceptionContext| {
        log.push(match &context.failure {
            Some(failure) => format!("{}: {failure}", context.message),
            None => context.message.to_string(),
        });
    })));
    trace
}

/// A loop whose time stands still until it is advanced.
pub fn virtual_loop() -> (EventLoop, Rc<VirtualClock>) {
    let clock = Rc::new(VirtualClock::new());
    (EventLoop::builder().clock(clock.clone()).build().unwrap(), clock)
}

/// Two ends of a connection; ours does not block.
pub fn pair() -> (Rc<UnixStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Rc::new(ours), theirs)
}

/// One iteration that does not wait.
pub fn turn(event_loop: &mut EventLoop) {
    event_loop.run_once(Some(Duration::ZERO)).unwrap();
}

/// One call of a selector.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    Register,
    Modify(Option<Interest>),
    Deregister,
    Select { timeout: Option<Duration>, events: usize },
}

/// The log of a [`LogSelector`], and a switch that makes its `modify` fail.
#[derive(Clone, Default)]
pub struct Log {
    calls: Rc<RefCell<Vec<Call>>>,
    pub modify_fails: Rc<Cell<bool>>,
    /// How many waits have begun, for other threads to see.
    pub waits: Arc<AtomicUsize>,
}

impl Log {
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.borrow_mut())
    }

    /// The calls that are not waits, since the last `take` of either kind.
    pub fn take_changes(&self) -> Vec<Call> {
        let mut calls = self.take();
        calls.retain(|call| !matches!(call, Call::Select { .. }));
        calls
    }

    /// Timeout and number of events of each wait.
    pub fn take_waits(&self) -> Vec<(Duration, usize)> {
        let waits = self.take().into_iter().filter_map(|call| match call {
            Call::Select { timeout, events } => Some((timeout.unwrap_or(Duration::MAX), events)),
            _ => None,
        });
        waits.collect()
    }
}

/// A selector that notes what it is asked.
pub struct LogSelector {
    inner: Box<dyn Selector>,
    log: Log,
}

impl LogSelector {
    pub fn new(name: &str) -> (Box<LogSelector>, Log) {
        let log = Log::default();
        (Box::new(LogSelector { inner: by_name(name).unwrap(), log: log.clone() }), log)
    }

    fn note(&self, call: Call) {
        self.log.calls.borrow_mut().push(call);
    }
}

impl Selector for LogSelector {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        self.note(Call::Register);
        self.inner.register(owner, interest)
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.note(Call::Modify(interest));
        if self.log.modify_fails.get() {
            // As a backend whose kernel refuses: registered, but silent.
            self.inner.modify(token, None)?;
            return Err(io::Error::from(io::ErrorKind::OutOfMemory));
        }
        self.inner.modify(token, interest)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        self.note(Call::Deregister);
        self.inner.deregister(token)
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.log.waits.fetch_add(1, Ordering::Relaxed);
        let result = self.inner.select(events, timeout);
        self.note(Call::Select { timeout, events: events.len() });
        result
    }

    forward_selector!(inner: rearm registry waker name as_fd);
}

/// Runs a test on a loop of each backend whose selector logs.
pub fn for_each_logged(test: impl Fn(EventLoop, Log)) {
    let _watchdog = watchdog();
    for name in available() {
        eprintln!("backend {name}");
        let (selector, log) = LogSelector::new(name);
        test(EventLoop::builder().selector(selector).build().unwrap(), log);
    }
}

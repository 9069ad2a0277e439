//! What the tests share: a watchdog, traces, a protocol that notes its hooks, and worlds: a loop with
//! its network on each backend, on a selector that logs.
#![allow(dead_code, unused_imports)] // Each test binary uses some of it.

mod kinds;
mod peer;
mod random;
mod selector;
mod terminal;
#[cfg(feature = "tls")]
pub mod tls;
mod wires;
mod world;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

pub use kinds::{Kind, PIPES, every_kind, for_each_backend};
use loop_core::{ExceptionContext, LoopRef};
use loop_net::{KeepOpen, NetError, Protocol, Transport, WriteState};
use loop_selector::by_name;
pub use peer::Peer;
pub use random::Random;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
pub use selector::{Log, LogSelector, Owner};
pub use terminal::terminal;
pub use wires::{Address, Target};
pub use world::World;

/// Whatever is compiled and works here, or only what `LOOP_SELECTOR` names.
pub fn backends() -> Vec<&'static str> {
    let chosen = std::env::var("LOOP_SELECTOR").ok().filter(|name| !name.is_empty());
    let all = [
        ("epoll", cfg!(target_os = "linux")),
        ("kqueue", cfg!(any(target_vendor = "apple", target_os = "freebsd"))),
        ("poll", true),
        ("select", true),
        ("mio", cfg!(feature = "mio")),
        ("uring", cfg!(feature = "uring")),
    ];
    let mut backends = Vec::new();
    for (name, compiled) in all {
        if chosen.as_ref().is_some_and(|chosen| chosen != name) {
            continue;
        }
        match compiled.then(|| by_name(name)) {
            Some(Ok(_)) => backends.push(name),
            // A kernel without io_uring.
            Some(Err(error)) if name == "uring" => eprintln!("{error}"),
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
    assert!(chosen.is_none() || !backends.is_empty() || chosen.as_deref() == Some("uring"));
    backends
}

/// Ends the process if it is not dropped within a minute: a hang becomes a failure with a name.
pub struct Watchdog(#[allow(dead_code)] mpsc::Sender<()>);

pub fn watchdog() -> Watchdog {
    let name = std::thread::current().name().unwrap_or("main").to_owned();
    let (alive, gone) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if gone.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Not `eprintln`, which the harness keeps for a test that never ends.
            let _ = writeln!(io::stderr(), "{name} hangs");
            std::process::abort();
        }
    });
    Watchdog(alive)
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

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }

    pub fn all(&self) -> Vec<String> {
        self.0.borrow().clone()
    }

    pub fn has(&self, what: &str) -> bool {
        self.0.borrow().iter().any(|entry| entry == what)
    }

    pub fn count(&self, prefix: &str) -> usize {
        self.0.borrow().iter().filter(|entry| entry.starts_with(prefix)).count()
    }
}

/// Calls its closure when it is dropped.
pub struct OnDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Replaces the exception handler by one that notes each report's message and failure. All
/// reports say whom they are about.
pub fn reports(lp: &LoopRef) -> Trace {
    let trace = Trace::new();
    let log = trace.clone();
    lp.set_exception_handler(Some(Rc::new(move |_, context: &ExceptionContext| {
        let names = context.subject.is_some() || context.handle.is_some();
        assert!(names || context.task.is_some(), "{context} names nobody");
        log.push(match &context.failure {
            Some(failure) => format!("{}: {failure}", context.message),
            None => context.message.to_string(),
        });
    })));
    trace
}

/// A hook as it is called.
pub enum Hook<'a> {
    Made,
    Data(&'a [u8]),
    Eof,
    Pause,
    Resume,
    Lost(Option<&'a NetError>),
}

impl Hook<'_> {
    /// The name without arguments.
    pub fn name(&self) -> &'static str {
        match self {
            Hook::Made => "made",
            Hook::Data(_) => "data",
            Hook::Eof => "eof",
            Hook::Pause => "pause",
            Hook::Resume => "resume",
            Hook::Lost(_) => "lost",
        }
    }

    fn entry(&self) -> String {
        match self {
            Hook::Data(data) if data.len() <= 16 => {
                format!("data {}", String::from_utf8_lossy(data))
            }
            Hook::Data(data) => format!("data of {}", data.len()),
            Hook::Lost(Some(NetError::Io(error))) => format!("lost {:?}", error.kind()),
            Hook::Lost(Some(error)) => format!("lost {error}"),
            other => other.name().to_owned(),
        }
    }
}

type Act = Rc<dyn Fn(Hook<'_>, &Transport)>;

/// A protocol that notes its hooks and then does what the test wants.
#[derive(Clone)]
pub struct Probe {
    pub trace: Trace,
    pub keep_open: Rc<Cell<bool>>,
    /// Of this very connection.
    own: Option<Transport>,
    /// Of the connection that was made last, for the test.
    last: Rc<RefCell<Option<Transport>>>,
    act: Act,
}

impl Probe {
    /// One that only notes.
    pub fn new() -> Probe {
        Self::acting(|_, _| {})
    }

    /// One that writes back what it receives.
    pub fn echoing() -> Probe {
        Self::acting(|hook, transport| {
            if let Hook::Data(data) = hook {
                transport.write(data);
            }
        })
    }

    pub fn acting(act: impl Fn(Hook<'_>, &Transport) + 'static) -> Probe {
        Probe {
            trace: Trace::new(),
            keep_open: Rc::default(),
            own: None,
            last: Rc::default(),
            act: Rc::new(act),
        }
    }

    /// One that notes in a given trace.
    pub fn traced(trace: &Trace, act: impl Fn(Hook<'_>, &Transport) + 'static) -> Probe {
        Probe { trace: trace.clone(), ..Self::acting(act) }
    }

    pub fn kept_open(self) -> Probe {
        self.keep_open.set(true);
        self
    }

    /// The connection that was made last.
    pub fn transport(&self) -> Option<Transport> {
        self.last.borrow().clone()
    }

    fn hook(&self, hook: Hook<'_>) {
        self.trace.push(hook.entry());
        (self.act)(hook, self.own.as_ref().expect("connection_made comes first"));
    }
}

impl Protocol for Probe {
    fn connection_made(&mut self, transport: &Transport) {
        self.own = Some(transport.clone());
        *self.last.borrow_mut() = Some(transport.clone());
        self.hook(Hook::Made);
    }

    fn data_received(&mut self, data: &[u8]) {
        self.hook(Hook::Data(data));
    }

    fn eof_received(&mut self) -> KeepOpen {
        self.hook(Hook::Eof);
        if self.keep_open.get() { KeepOpen::Yes } else { KeepOpen::No }
    }

    fn pause_writing(&mut self) {
        self.hook(Hook::Pause);
    }

    fn resume_writing(&mut self) {
        self.hook(Hook::Resume);
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        self.hook(Hook::Lost(error));
    }
}

/// Lets the system keep little of a connection, so that little must be written to fill it.
pub fn narrow(transport: &Transport) {
    // A pipe is narrow as it is.
    let _ = transport.socket().set_send_buffer_size(16 * 1024);
}

/// Writes until the socket takes no more; how many bytes were written. They are `byte`.
pub fn block(transport: &Transport, byte: u8) -> usize {
    let chunk = vec![byte; 64 * 1024];
    let mut written = 0;
    while transport.write_buffer_size() == 0 {
        transport.write(&chunk);
        written += chunk.len();
    }
    written
}

/// Writes until the protocol is to pause; how many bytes were written. They are `byte`.
pub fn fill(transport: &Transport, byte: u8) -> usize {
    let chunk = vec![byte; 48 * 1024];
    let mut written = chunk.len();
    while transport.write(&chunk) == WriteState::Open {
        written += chunk.len();
    }
    written
}

/// Ends a connection with a reset instead of an end of file.
pub fn reset(peer: TcpStream) {
    Peer::new(peer).reset();
}

/// Whether a peer sees its connection as open and silent.
pub fn is_open(mut peer: impl Read + AsFd) -> bool {
    rustix::io::ioctl_fionbio(&peer, true).unwrap();
    matches!(peer.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// An address that nobody listens on: bound, so that nobody else gets it, but not listening.
pub fn refusing() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, addr)
}

pub fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

pub fn text(error: impl Display) -> String {
    error.to_string()
}

/// A directory of one's own, removed at the end.
pub struct TempDir(std::path::PathBuf);

impl TempDir {
    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn temp_dir() -> TempDir {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("loop-net-{}-{number}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => return TempDir(path),
            // Of a process of the same number that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", path.display()),
        }
    }
}

/// As many descriptors as this process may have at all; how many that is. A shell often starts with 1,024.
pub fn all_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

/// A pipe: what is read from, and what is written to.
pub fn pipe() -> (std::fs::File, std::fs::File) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (reader.into(), writer.into())
}

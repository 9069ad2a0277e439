//! What the tests share: a watchdog, traces, a protocol that notes its hooks, and worlds: a loop with
//! its network on each backend, on a selector that logs.
#![allow(dead_code)] // Each test binary uses some of it.

#[cfg(feature = "tls")]
pub mod tls;

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::{Rc, Weak};
use std::sync::mpsc;
use std::time::Duration;

use loop_core::{
    AsSource, EventLoop, ExceptionContext, Interest, LoopRef, Readiness, RegisterError, Selector,
    Token,
};
use loop_net::{
    KeepOpen, Net, NetError, Protocol, Server, StreamReader, StreamWriter, Transport, WriteState,
};
use loop_selector::{Event, Events, Registry, Waker, by_name};

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
            eprintln!("{name} hangs");
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

/// A loop, its network, and what they reported.
pub struct World {
    pub event_loop: EventLoop,
    pub net: Net,
    pub reports: Trace,
    pub log: Log,
    /// Of the connections that [`World::accept`] makes.
    pub kind: Kind,
}

/// What a connection goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    Unix,
    /// TLS on TCP. A thread decrypts for the peer, so what arrives takes its time.
    #[cfg(feature = "tls")]
    Tls,
    /// One direction: only [`World::open_reading`] makes these.
    Pipe,
}

/// Runs a test in a world of each backend; nothing may be reported that the test did not take.
pub fn for_each_backend(test: impl Fn(&mut World)) {
    let _watchdog = watchdog();
    for name in backends() {
        eprintln!("backend {name}");
        let mut world = World::new(name);
        assert_eq!(world.event_loop.selector_name(), name);
        test(&mut world);
        assert_eq!(world.reports.take(), [""; 0], "reported");
    }
}

/// Runs a test in a world of each backend, over TCP and over Unix sockets: what it tests is about a
/// connection's own socket, such as what the selector is asked, half a close, or a reset.
pub fn for_each_socket(test: impl Fn(&mut World)) {
    of_kinds(&[Kind::Tcp, Kind::Unix], test);
}

/// As [`for_each_socket`], and over TLS: what it tests holds for every stream.
pub fn for_each_stream(test: impl Fn(&mut World)) {
    let kinds = [
        Kind::Tcp,
        Kind::Unix,
        #[cfg(feature = "tls")]
        Kind::Tls,
    ];
    of_kinds(&kinds, test);
}

/// As [`for_each_stream`], and over pipes: what it tests holds for whatever can be read.
pub fn for_each_reading(test: impl Fn(&mut World)) {
    for_each_stream(&test);
    of_kinds(&[Kind::Pipe], test);
}

fn of_kinds(kinds: &[Kind], test: impl Fn(&mut World)) {
    for_each_backend(|world| {
        for kind in kinds {
            eprintln!("kind {kind:?}");
            let mut other = World::new(world.event_loop.selector_name());
            other.kind = *kind;
            test(&mut other);
            assert_eq!(other.reports.take(), [""; 0], "reported");
        }
    });
}

/// The ends of a connection over a Unix socket. The standard library's `TcpStream` reads and writes any
/// stream socket.
pub fn unix_pair() -> (std::os::fd::OwnedFd, TcpStream) {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    (ours.into(), TcpStream::from(std::os::fd::OwnedFd::from(theirs)))
}

impl World {
    pub fn new(backend: &str) -> World {
        let (selector, log) = LogSelector::new(backend);
        World::on(selector, log)
    }

    /// One whose selector notes nothing: notes take memory.
    pub fn without_log(backend: &str) -> World {
        World::on(by_name(backend).unwrap(), Log::default())
    }

    fn on(selector: Box<dyn Selector>, log: Log) -> World {
        let event_loop = EventLoop::builder().selector(selector).build().unwrap();
        let net = Net::os(&event_loop);
        let reports = reports(&event_loop);
        World { event_loop, net, reports, log, kind: Kind::Tcp }
    }

    /// One iteration that does not wait.
    pub fn turn(&mut self) {
        self.event_loop.run_once(Some(Duration::ZERO)).unwrap();
    }

    /// Enough iterations for what should not happen to happen.
    pub fn idle(&mut self) {
        for _ in 0..8 {
            self.turn();
        }
    }

    /// Iterations until something holds; the watchdog ends the ones that never do.
    pub fn until(&mut self, mut holds: impl FnMut() -> bool) {
        while !holds() {
            self.event_loop.run_once(Some(Duration::from_millis(1))).unwrap();
        }
    }

    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        self.event_loop.run_until_complete(future).unwrap()
    }

    /// A server whose connections share `probe`.
    pub fn serve(&mut self, probe: &Probe) -> Server {
        let probe = probe.clone();
        let server = self.net.tcp_server("127.0.0.1:0").bind(move || probe.clone());
        self.block_on(server).unwrap()
    }

    /// A connection with `probe` on our side, `connection_made` called, and its peer. The server that
    /// accepted it is closed already.
    pub fn accept(&mut self, probe: &Probe) -> (Transport, TcpStream) {
        match self.kind {
            Kind::Tcp => {
                let server = self.serve(probe);
                let peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
                self.until(|| probe.transport().is_some());
                server.close();
                (probe.transport().unwrap(), peer)
            }
            Kind::Unix => {
                let dir = temp_dir();
                let path = dir.path().join("server");
                let (builder, made) = (self.net.unix_server(path.as_path()), probe.clone());
                let server = self.block_on(builder.bind(move || made.clone())).unwrap();
                let peer = std::os::unix::net::UnixStream::connect(&path).unwrap();
                self.until(|| probe.transport().is_some());
                drop(server);
                let peer = std::os::fd::OwnedFd::from(peer);
                (probe.transport().unwrap(), TcpStream::from(peer))
            }
            Kind::Pipe => panic!("a pipe has one direction"),
            #[cfg(feature = "tls")]
            Kind::Tls => {
                let server = tls::probe_server(self, tls::shared().server(), probe);
                let addr = server.local_addrs()[0];
                let peer = tls::plain_client(move || TcpStream::connect(addr).unwrap());
                self.until(|| probe.transport().is_some());
                server.close();
                (probe.transport().unwrap(), peer)
            }
        }
    }

    /// A stream of ours that is only read, what keeps it open, and who writes.
    pub fn open_reading(&mut self) -> (StreamReader, Option<StreamWriter>, Feeder) {
        if self.kind == Kind::Pipe {
            let (reading, writing) = pipe();
            let opening = self.net.read_pipe(reading).unwrap().open_stream();
            return (self.block_on(opening).unwrap(), None, Feeder(Some(writing)));
        }
        let (reader, writer, peer) = self.open_stream();
        let peer = std::os::fd::OwnedFd::from(peer);
        (reader, Some(writer), Feeder(Some(peer.into())))
    }

    /// A stream of ours, and its peer.
    pub fn open_stream(&mut self) -> (StreamReader, StreamWriter, TcpStream) {
        match self.kind {
            Kind::Tcp => {
                let (listener, addr) = listener();
                let connecting = self.net.tcp_connect(addr).open_stream();
                let (reader, writer) = self.block_on(connecting).unwrap();
                (reader, writer, listener.accept().unwrap().0)
            }
            Kind::Unix => {
                let (ours, peer) = unix_pair();
                let adopted = self.net.adopt(ours).unwrap();
                let (reader, writer) = self.block_on(adopted.open_stream()).unwrap();
                (reader, writer, peer)
            }
            Kind::Pipe => panic!("a pipe has one direction"),
            #[cfg(feature = "tls")]
            Kind::Tls => {
                let (listener, addr) = listener();
                let peer = tls::plain_server(move || listener.accept().unwrap().0);
                let connecting = self.net.tcp_connect(addr).tls(tls::shared().client());
                let (reader, writer) = self.block_on(connecting.open_stream()).unwrap();
                (reader, writer, peer)
            }
        }
    }

    /// Reads what the peer gets, while the loop runs, until there are `count` bytes.
    pub fn read(&mut self, peer: &mut TcpStream, count: usize) -> Vec<u8> {
        let (bytes, end) = self.receive(peer, count);
        assert!(bytes.len() >= count, "{} of {count} bytes, then {end:?}", bytes.len());
        bytes
    }

    /// Reads what the peer gets, while the loop runs, until its stream ends well.
    pub fn read_to_end(&mut self, peer: &mut TcpStream) -> Vec<u8> {
        let (bytes, end) = self.receive(peer, usize::MAX);
        end.unwrap();
        bytes
    }

    fn receive(&mut self, peer: &mut TcpStream, count: usize) -> (Vec<u8>, io::Result<()>) {
        peer.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 256 * 1024];
        while bytes.len() < count {
            match peer.read(&mut chunk) {
                Ok(0) => return (bytes, Ok(())),
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return (bytes, Err(error)),
            }
            self.event_loop.run_once(Some(Duration::ZERO)).unwrap();
        }
        (bytes, Ok(()))
    }

    /// Tells whether the only registered socket is still open. Numbers are reused, these links are not.
    pub fn only_socket(&self) -> impl Fn() -> bool + use<> {
        let owner = self.only_owner();
        let link = format!("/proc/self/fd/{}", AsFd::as_fd(&owner).as_raw_fd());
        let socket = std::fs::read_link(&link).unwrap();
        move || std::fs::read_link(&link).is_ok_and(|now| now == socket)
    }

    /// The owner of the only registration.
    pub fn only_owner(&self) -> Owner {
        let fds = self.log.fds.borrow();
        assert_eq!(fds.len(), 1);
        Owner(fds[0].1.upgrade().expect("what is registered is alive"))
    }
}

/// Whoever writes to what we read: a socket or a pipe.
pub struct Feeder(Option<std::fs::File>);

impl Feeder {
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.as_mut().expect("not ended").write_all(bytes)
    }

    /// We read the end.
    pub fn end(&mut self) {
        let Some(file) = self.0.take() else { return };
        if rustix::net::shutdown(&file, rustix::net::Shutdown::Write).is_ok() {
            // Our answer would find nobody.
            self.0 = Some(file);
        }
    }
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
    socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
}

/// Whether a peer sees its connection as open and silent.
pub fn is_open(peer: &TcpStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    matches!((&*peer).read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
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

/// The owner of a registered descriptor, as somebody else who has it: what [`World::only_owner`] found.
/// It keeps the descriptor open.
pub struct Owner(Rc<dyn AsSource>);

impl AsFd for Owner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        AsSource::as_fd(&*self.0)
    }
}

type Registered = (Token, Weak<dyn AsSource>);

/// What a [`LogSelector`] was asked.
#[derive(Clone, Default)]
pub struct Log {
    pub registers: Rc<Cell<usize>>,
    pub deregisters: Rc<Cell<usize>>,
    pub waits: Rc<Cell<usize>>,
    modifies: Rc<RefCell<Vec<Option<Interest>>>>,
    fds: Rc<RefCell<Vec<Registered>>>,
    /// Says of everything that it is readable, whether it is or not.
    pub lies: Rc<Cell<bool>>,
}

impl Log {
    /// The changed interests since the last call.
    pub fn take_modifies(&self) -> Vec<Option<Interest>> {
        std::mem::take(&mut self.modifies.borrow_mut())
    }

    pub fn registered(&self) -> usize {
        self.fds.borrow().len()
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
}

impl Selector for LogSelector {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        let weak = Rc::downgrade(&owner);
        let token = self.inner.register(owner, interest)?;
        self.log.registers.set(self.log.registers.get() + 1);
        self.log.fds.borrow_mut().push((token, weak));
        Ok(token)
    }

    fn modify(&mut self, token: Token, interest: Option<Interest>) -> io::Result<()> {
        self.log.modifies.borrow_mut().push(interest);
        self.inner.modify(token, interest)
    }

    fn rearm(&mut self, token: Token) -> io::Result<()> {
        self.inner.rearm(token)
    }

    fn deregister(&mut self, token: Token) -> io::Result<Rc<dyn AsSource>> {
        self.log.deregisters.set(self.log.deregisters.get() + 1);
        self.log.fds.borrow_mut().retain(|(other, _)| *other != token);
        self.inner.deregister(token)
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.log.waits.set(self.log.waits.get() + 1);
        self.inner.select(events, timeout)?;
        if self.log.lies.get() {
            for (token, _) in &*self.log.fds.borrow() {
                events.push(Event::Ready { token: *token, readiness: Readiness::READABLE });
            }
        }
        Ok(())
    }

    fn registry(&self) -> &Registry {
        self.inner.registry()
    }

    fn waker(&self) -> Waker {
        self.inner.waker()
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.as_fd()
    }
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
    let name = format!("loop-net-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path).unwrap();
    TempDir(path)
}

/// A pipe: what is read from, and what is written to.
pub fn pipe() -> (std::fs::File, std::fs::File) {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (reader.into(), writer.into())
}

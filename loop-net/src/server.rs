//! Servers: listening sockets and what they accept.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_core::{
    ExceptionContext, Failure, Interest, IoHandler, LoopFuture, Outcome, Readiness, Token,
    catch_panic, yield_now,
};
use rustix::io::Errno;

use crate::addr::Addrs;
use crate::conn::{Conn, Shared};
use crate::error::named;
use crate::protocol::{AnyProtocol, Protocol};
use crate::socket::{ListenOptions, Socket};
use crate::stream::{StreamProtocol, StreamReader, StreamWriter};

/// How long accepting pauses when the system is out of descriptors or memory (B-SRV-09).
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

/// A server about to listen; from [`Net::tcp_server`](crate::Net::tcp_server).
#[must_use = "nothing listens before `bind` or `serve_streams`"]
pub struct TcpServerBuilder {
    shared: Rc<Shared>,
    addrs: io::Result<Addrs>,
    options: ListenOptions,
}

impl TcpServerBuilder {
    pub(crate) fn new(shared: Rc<Shared>, addrs: io::Result<Addrs>) -> Self {
        let options = ListenOptions { backlog: 100, reuse_address: true, reuse_port: false };
        TcpServerBuilder { shared, addrs, options }
    }

    /// How many connections may wait to be accepted: 100 unless set. At most as many are accepted in
    /// one iteration (B-SRV-07).
    pub fn backlog(mut self, backlog: u16) -> Self {
        self.options.backlog = i32::from(backlog.max(1));
        self
    }

    /// Whether an address that a closed connection still occupies may be bound; on unless set
    /// (B-SRV-14).
    pub fn reuse_address(mut self, on: bool) -> Self {
        self.options.reuse_address = on;
        self
    }

    /// Whether several sockets may listen on one address, each getting a share of the connections.
    pub fn reuse_port(mut self, on: bool) -> Self {
        self.options.reuse_port = on;
        self
    }

    /// Listens, and gives each connection to a new protocol; asyncio's `create_server`. It returns once
    /// the loop watches every listener (B-SRV-01).
    ///
    /// The factory and the protocols run in the context current now. A factory that panics costs its
    /// connection only (B-SRV-11).
    ///
    /// # Errors
    /// If an address is bad or cannot be bound; the error names it, and nothing listens then. An
    /// address that this host does not have is skipped if another one binds (B-SRV-13).
    pub async fn bind<P, F>(self, factory: F) -> io::Result<Server>
    where
        P: Protocol + 'static,
        F: Fn() -> P + 'static,
    {
        self.listen(Box::new(move || Box::new(factory()))).await
    }

    /// Listens, and runs `handler` with the two halves of each connection as a task; asyncio's
    /// `start_server`. The handler may be an `async` closure, and may return `()` or a `Result`, whose
    /// error is reported (B-STR-21).
    ///
    /// ```
    /// # use loop_net::{Net, EventLoop};
    /// # let mut event_loop = EventLoop::new()?;
    /// # let net = Net::os(&event_loop);
    /// # event_loop.run_until_complete(async {
    /// let server = net
    ///     .tcp_server("127.0.0.1:0")
    ///     .serve_streams(async |mut reader, writer| {
    ///         while let Some(line) = reader.read_line().await? {
    ///             writer.write(&line);
    ///             writer.drain().await?;
    ///         }
    ///         std::io::Result::Ok(())
    ///     })
    ///     .await?;
    /// # let (mut reader, writer) = net.tcp_connect(server.local_addrs()[0]).open_stream().await?;
    /// # writer.write(b"hi\n");
    /// # assert_eq!(reader.read_line().await?.unwrap(), b"hi\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub async fn serve_streams<H, R>(self, handler: H) -> io::Result<Server>
    where
        H: AsyncFn(StreamReader, StreamWriter) -> R + 'static,
        R: Outcome + 'static,
    {
        let handler = Rc::new(handler);
        let lp = self.shared.lp.clone();
        self.listen(Box::new(move || {
            let (handler, lp) = (handler.clone(), lp.clone());
            Box::new(StreamProtocol::new(move |reader, writer| {
                let (reporter, transport) = (lp.clone(), writer.transport().clone());
                let task = lp.spawn(async move {
                    if let Err(error) = handler(reader, writer).await.into_result() {
                        let context = ExceptionContext::new("a stream handler failed")
                            .with_failure(Failure::Error(error))
                            .with_subject(transport.describe());
                        reporter.report(&context);
                    }
                });
                task.detach();
            }))
        }))
        .await
    }

    async fn listen(self, factory: Factory) -> io::Result<Server> {
        let addrs = self.addrs?.resolve(&self.shared.lp).await?;
        let sockets = listen_on(&addrs, self.options)?;
        let lp = &self.shared.lp;
        let state = Rc::new(State {
            closed: Cell::new(false),
            connections: Cell::new(0),
            clients: RefCell::default(),
            next_client: Cell::new(0),
            done: lp.create_future(),
        });
        let factory = Rc::new(factory);
        let server = Server { shared: self.shared.clone(), state, listeners: RefCell::default() };
        for (socket, local) in sockets {
            let socket = Rc::new(socket);
            let listener = Rc::new_cyclic(|me| Listener {
                me: me.clone(),
                shared: self.shared.clone(),
                socket: socket.clone(),
                local,
                token: Cell::new(None),
                backlog: self.options.backlog,
                factory: factory.clone(),
                state: server.state.clone(),
            });
            let token = lp.register_io(socket, Interest::READ, listener.clone())?;
            listener.token.set(Some(token));
            server.listeners.borrow_mut().push((token, local));
        }
        yield_now().await;
        Ok(server)
    }
}

/// Listens on each address once. Those that this host does not have are skipped if another one binds
/// (B-SRV-13).
fn listen_on(
    addrs: &[SocketAddr],
    options: ListenOptions,
) -> io::Result<Vec<(Socket, SocketAddr)>> {
    let mut skipped = io::Error::new(io::ErrorKind::InvalidInput, "no address to listen on");
    let mut sockets = Vec::new();
    for (index, addr) in addrs.iter().enumerate() {
        if addrs[..index].contains(addr) {
            continue;
        }
        let error = match Socket::listen(*addr, options) {
            Ok(socket) => {
                let local = socket.local_addr().unwrap_or(*addr);
                sockets.push((socket, local));
                continue;
            }
            Err(error) => error,
        };
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        skipped = named(format!("listen on {addr}"), error);
        if !matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT)) {
            return Err(skipped);
        }
    }
    if sockets.is_empty() { Err(skipped) } else { Ok(sockets) }
}

impl fmt::Debug for TcpServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpServerBuilder")
            .field("addrs", &self.addrs)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

type Factory = Box<dyn Fn() -> Box<dyn AnyProtocol>>;

/// What listeners, connections and the server's user share.
struct State {
    closed: Cell<bool>,
    /// Connections that are not over: also those whose start-up has not begun.
    connections: Cell<usize>,
    /// The same connections, weakly, in the order in which they were accepted.
    clients: RefCell<BTreeMap<u64, Weak<Conn>>>,
    next_client: Cell<u64>,
    /// Completed once the server is closed and its last connection is over.
    done: LoopFuture<()>,
}

impl State {
    fn check_done(&self) {
        if self.closed.get() && self.connections.get() == 0 {
            // It may be done already.
            let _ = self.done.set_result(());
        }
    }
}

/// Counts one connection for as long as it lives.
struct Accepted {
    state: Rc<State>,
    client: u64,
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.state.connections.set(self.state.connections.get() - 1);
        self.state.clients.borrow_mut().remove(&self.client);
        self.state.check_done();
    }
}

/// Listening sockets and the connections they accepted; asyncio's `Server`.
///
/// Dropping it closes the listeners, not the connections.
#[must_use = "dropping a server stops it listening"]
pub struct Server {
    shared: Rc<Shared>,
    state: Rc<State>,
    listeners: RefCell<Vec<(Token, SocketAddr)>>,
}

impl Server {
    /// The addresses that are listened on; none after [`close`](Self::close).
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners.borrow().iter().map(|(_, addr)| *addr).collect()
    }

    /// Whether the server listens.
    pub fn is_serving(&self) -> bool {
        !self.state.closed.get()
    }

    /// How many accepted connections are not over yet.
    pub fn connections(&self) -> usize {
        self.state.connections.get()
    }

    /// Stops listening, at once. Accepted connections live on. Closing twice is fine (B-SRV-03).
    pub fn close(&self) {
        let listeners = std::mem::take(&mut *self.listeners.borrow_mut());
        for (token, _) in listeners {
            drop(self.shared.lp.deregister_io(token));
        }
        self.state.closed.set(true);
        self.state.check_done();
    }

    /// Closes every connection that was accepted: what is buffered is flushed first. Works before and
    /// after [`close`](Self::close) (B-SRV-05).
    pub fn close_clients(&self) {
        self.each_client(Conn::close);
    }

    /// Aborts every connection that was accepted: what is buffered is dropped (B-SRV-05).
    pub fn abort_clients(&self) {
        self.each_client(Conn::abort);
    }

    fn each_client(&self, end: impl Fn(&Conn)) {
        let clients: Vec<Weak<Conn>> = self.state.clients.borrow().values().cloned().collect();
        for client in clients.iter().filter_map(Weak::upgrade) {
            end(&client);
        }
    }

    /// Waits until the server is closed and its last connection is over, in whichever order
    /// (B-SRV-04).
    pub async fn wait_closed(&self) {
        // It has no other outcome than its value.
        let _ = self.state.done.clone().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("local_addrs", &self.local_addrs())
            .field("connections", &self.connections())
            .finish()
    }
}

/// One listening socket.
struct Listener {
    me: Weak<Listener>,
    shared: Rc<Shared>,
    socket: Rc<Socket>,
    local: SocketAddr,
    token: Cell<Option<Token>>,
    backlog: i32,
    factory: Rc<Factory>,
    state: Rc<State>,
}

impl Listener {
    fn accepted(&self, socket: Socket) {
        match catch_panic(|| (self.factory)()) {
            // The factory closed the server; nobody waits for this connection (B-SRV-12).
            Ok(_) if self.state.closed.get() => {}
            Ok(protocol) => {
                let state = &self.state;
                state.connections.set(state.connections.get() + 1);
                let client = state.next_client.replace(state.next_client.get() + 1);
                let owner = Box::new(Accepted { state: state.clone(), client });
                // The start-up is queued with a reference of its own.
                let conn = Conn::start(&self.shared, socket, protocol, Some(owner), None);
                state.clients.borrow_mut().insert(client, Rc::downgrade(&conn));
            }
            Err(panic) => {
                self.shared.report("a protocol factory failed", panic, self.describe());
            }
        }
    }

    fn describe(&self) -> String {
        format!("listener on {}", self.local)
    }

    fn report(&self, message: &'static str, error: io::Error) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Error(error.into()))
            .with_subject(self.describe());
        self.shared.lp.report(&context);
    }

    /// Lets the listener rest. The retry finds nothing if it was closed meanwhile.
    fn back_off(&self) {
        let Some(token) = self.token.get() else { return };
        self.shared.lp.set_interest(token, None);
        let me = self.me.clone();
        self.shared.lp.call_later(ACCEPT_RETRY, move || {
            if let Some(me) = me.upgrade() {
                me.shared.lp.set_interest(token, Some(Interest::READ));
            }
        });
    }
}

impl IoHandler for Listener {
    /// Accepts until nobody waits, up to the backlog (B-SRV-07 to 10).
    fn ready(&self, _: Readiness, _: &mut Vec<u8>) {
        for _ in 0..self.backlog {
            // A factory may have closed the server.
            if self.state.closed.get() {
                return;
            }
            match self.socket.accept() {
                Ok((socket, _)) => self.accepted(socket),
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::AGAIN) => return,
                    Some(Errno::INTR | Errno::CONNABORTED) => {}
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        self.report("accepting pauses: out of resources", error);
                        return self.back_off();
                    }
                    _ => return self.report("accepting a connection failed", error),
                },
            }
        }
    }
}

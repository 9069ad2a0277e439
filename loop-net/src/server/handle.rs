//! `Server`: what listens, and who is connected.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use loop_core::{CancelOnDrop, LoopFuture, Task, timeout_at};

use super::clients::Clients;
use super::listener::Listener;
use crate::conn::{Accepted, Acceptor, Conn, Shared};
use crate::sock_addr::SockAddr;

/// What listeners, connections and the server's user share.
pub(super) struct State {
    closed: Cell<bool>,
    listeners: RefCell<Vec<Rc<Listener>>>,
    /// Connections that are not over: also those whose start-up has not begun.
    connections: Cell<usize>,
    max_connections: usize,
    /// The same connections, weakly, in the order in which they were accepted: the number of the next
    /// one is how many there were.
    clients: RefCell<Clients>,
    next_client: Cell<u64>,
    /// Connections whose PROXY header is being read: dropping such a task ends it.
    shaking: RefCell<BTreeMap<u64, CancelOnDrop<Task<()>>>>,
    /// Completed once the server is closed.
    stopped: LoopFuture<()>,
    /// Completed once the server is closed and its last connection is over.
    done: LoopFuture<()>,
    serving: Cell<bool>,
}

impl State {
    pub(super) fn add(&self, listener: Rc<Listener>) {
        self.listeners.borrow_mut().push(listener);
    }

    pub(super) fn know(&self, client: u64, conn: &Rc<Conn>) {
        self.clients.borrow_mut().insert(client, conn);
    }

    pub(super) fn shakes(&self, client: u64, task: Task<()>) {
        self.shaking.borrow_mut().insert(client, task.cancel_on_drop());
    }

    /// It is a connection now, or is over: its task ends by itself.
    pub(super) fn shaken(&self, client: u64) {
        let task = self.shaking.borrow_mut().remove(&client);
        if let Some(task) = task {
            task.into_inner().detach();
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    pub(super) fn is_full(&self) -> bool {
        self.connections.get() >= self.max_connections
    }

    /// Tells every listener whether connections are wanted.
    pub(super) fn arm_all(&self) {
        for listener in &*self.listeners.borrow() {
            listener.arm();
        }
    }

    pub(super) fn close(&self) {
        let listeners = std::mem::take(&mut *self.listeners.borrow_mut());
        for listener in &listeners {
            listener.close();
        }
        drop(listeners);
        self.closed.set(true);
        // It may have been closed before.
        let _ = self.stopped.set_result(());
        self.check_done();
    }

    /// Closes, and serves those who were let in before.
    pub(super) fn close_behind_the_last(&self) {
        // Accepting runs factories, which may close the server.
        let listeners = self.listeners.borrow().clone();
        for listener in listeners {
            listener.accept_last();
        }
        self.close();
    }

    fn check_done(&self) {
        if self.closed.get() && self.connections.get() == 0 {
            // It may be done already.
            let _ = self.done.set_result(());
        }
    }
}

/// Counts a connection for as long as what comes back lives; its number comes with it.
pub(super) fn count(state: &Rc<State>) -> (Accepted, u64) {
    state.connections.set(state.connections.get() + 1);
    let client = state.next_client.replace(state.next_client.get() + 1);
    (Accepted::new(state.clone(), client), client)
}

impl Acceptor for State {
    fn is_over(&self, client: u64) {
        let was_full = self.is_full();
        self.connections.set(self.connections.get() - 1);
        self.clients.borrow_mut().remove(client);
        if was_full {
            self.arm_all();
        }
        self.check_done();
    }
}

/// How a [`Server::drain`] went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Drained {
    /// Connections that ended by themselves in time.
    pub finished: usize,
    /// Connections that were aborted at the deadline.
    pub aborted: usize,
}

/// Listening sockets and the connections they accepted; asyncio's `Server`.
///
/// Dropping it closes the listeners, not the connections.
#[must_use = "dropping a server stops it listening"]
pub struct Server {
    shared: Rc<Shared>,
    state: Rc<State>,
}

impl Server {
    pub(super) fn new(shared: Rc<Shared>, max_connections: usize) -> Server {
        let state = Rc::new(State {
            closed: Cell::new(false),
            listeners: RefCell::default(),
            connections: Cell::new(0),
            max_connections,
            clients: RefCell::default(),
            next_client: Cell::new(0),
            shaking: RefCell::default(),
            stopped: shared.lp.create_future(),
            done: shared.lp.create_future(),
            serving: Cell::new(false),
        });
        Server { shared, state }
    }

    pub(super) fn state(&self) -> &Rc<State> {
        &self.state
    }

    /// The IP addresses that are listened on; none after [`close`](Self::close).
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        let listeners = self.state.listeners.borrow();
        listeners.iter().filter_map(|listener| listener.local.socket_addr()).collect()
    }

    /// All addresses that are listened on, in the order in which they were given; none after
    /// [`close`](Self::close).
    pub fn local_sock_addrs(&self) -> Vec<SockAddr> {
        self.state.listeners.borrow().iter().map(|listener| listener.local.clone()).collect()
    }

    /// Whether the server listens.
    pub fn is_serving(&self) -> bool {
        !self.state.closed.get()
    }

    /// How many accepted connections are not over yet.
    pub fn connections(&self) -> usize {
        self.state.connections.get()
    }

    /// How many connections were accepted since the start.
    pub fn accepted(&self) -> u64 {
        self.state.next_client.get()
    }

    /// Stops listening, at once. Accepted connections live on. Closing twice is fine (B-SRV-03).
    ///
    /// Who is connected as far as the system is concerned, and was not accepted yet, is reset by it;
    /// [`drain`](Self::drain) accepts them first.
    pub fn close(&self) {
        self.state.close();
    }

    /// Closes every connection that was accepted: what is buffered is flushed first, and clients behind TLS are
    /// sent a `close_notify`, whose answer is waited for within the limit of `Tls::shutdown_timeout`. Works before
    /// and after [`close`](Self::close) (B-SRV-05).
    pub fn close_clients(&self) {
        self.each_client(Conn::close_for_users);
    }

    /// Aborts every connection that was accepted: what is buffered is dropped (B-SRV-05).
    pub fn abort_clients(&self) {
        self.each_client(Conn::abort);
    }

    fn each_client(&self, end: impl Fn(&Conn)) {
        let shaking = std::mem::take(&mut *self.state.shaking.borrow_mut());
        drop(shaking);
        let clients = self.state.clients.borrow().alive();
        for client in clients {
            end(&client);
        }
    }

    /// Waits until the server is closed and its last connection is over, in whichever order
    /// (B-SRV-04). Dropping the future changes nothing.
    pub async fn wait_closed(&self) {
        // It has no other outcome than its value.
        let _ = self.state.done.clone().await;
    }

    /// Serves until [`close`](Self::close), and then until the last connection is over. Dropping the
    /// future closes the server: it stops listening, and its connections live on (B-SRV-02).
    ///
    /// # Errors
    /// `InvalidInput` if the server is closed already, `ResourceBusy` if another call is under way.
    pub async fn serve_forever(&self) -> io::Result<()> {
        let serving = self.begin_serving()?;
        self.stopped().await;
        drop(serving);
        self.wait_closed().await;
        Ok(())
    }

    /// Dropping what comes back closes the server.
    pub(super) fn begin_serving(&self) -> io::Result<Serving<'_>> {
        if self.state.closed.get() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the server is closed"));
        }
        if self.state.serving.replace(true) {
            let message = "the server serves already, until it is closed";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        Ok(Serving(self))
    }

    pub(super) async fn stopped(&self) {
        // It has no other outcome than its value.
        let _ = self.state.stopped.clone().await;
    }

    /// Shuts the server down in order: it accepts who waits to be (at most as many as the backlog, and never more
    /// than `max_connections`), stops listening, lets its connections finish for up to `grace`, and aborts
    /// those that have not. `Duration::MAX` is a grace without an end.
    ///
    /// A client whose connection is completed at the very moment at which the listener closes may still be reset:
    /// no call of the system's does both. A proxy in front should be told before (`set server ... state drain` in
    /// HAProxy); then nothing is lost.
    ///
    /// Connections are not told; protocols that wait for requests would wait to the end. Tell them
    /// first, or call [`close_clients`](Self::close_clients) to have what is written flushed and
    /// nothing more read. Dropping the future leaves the server closed and its connections alone.
    ///
    /// ```
    /// # use loop_net::{Net, run, LoopRef};
    /// # use std::time::Duration;
    /// # run(async {
    /// # let net = Net::os(&LoopRef::current());
    /// # let server = net.tcp_server("127.0.0.1:0").serve_streams(async |_, _| ()).await?;
    /// server.close_clients();
    /// let drained = server.drain(Duration::from_secs(5)).await;
    /// println!("{} ended in time, {} did not", drained.finished, drained.aborted);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn drain(&self, grace: Duration) -> Drained {
        self.drain_until(deadline(self.shared.lp.now(), grace)).await
    }

    /// [`drain`](Self::drain) with a deadline, for several servers that end together; dropped, as that.
    pub async fn drain_until(&self, deadline: Instant) -> Drained {
        self.state.close_behind_the_last();
        let open = self.connections();
        // Whether it was in time shows in the number of connections.
        let _ = timeout_at(deadline, self.wait_closed()).await;
        let aborted = self.connections();
        self.abort_clients();
        self.wait_closed().await;
        Drained { finished: open - aborted, aborted }
    }
}

/// When a grace that begins now is over. One that no clock can tell the end of takes a century.
pub(super) fn deadline(now: Instant, grace: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    now + grace.min(NEVER)
}

/// A `serve_forever`, or `serve_until_interrupted`, under way. Ending it closes the server.
pub(super) struct Serving<'a>(&'a Server);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.state.serving.set(false);
        self.0.close();
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
            .field("on", &self.local_sock_addrs())
            .field("connections", &self.connections())
            .finish()
    }
}

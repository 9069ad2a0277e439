//! `serve_per_core`: one loop a thread, one port.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loop_core::EventLoop;

use super::builder::ServerBuilder;
use super::handle::{Drained, Server, deadline};
use super::listen::bind_each;
use crate::addr::ToAddrs;
use crate::net::Net;
use crate::socket::Socket;

/// Runs the same server on `threads` threads, each with a loop of its own. All listen on the same
/// addresses, and the system gives each a share of the connections (`SO_REUSEPORT`).
///
/// `serve` is called once on every thread, with a builder that has the addresses; what it makes lives and
/// dies on that thread, so it may use `Rc` and the rest. Returns when all of them listen. This call
/// blocks, also for looking up names: it belongs into `main`, not into a loop.
///
/// ```
/// use loop_net::serve_per_core;
/// use std::time::Duration;
///
/// let servers = serve_per_core(2, "127.0.0.1:0", async |builder| {
///     builder
///         .max_connections(10_000)
///         .serve_streams(async |mut reader, writer| {
///             while let Some(line) = reader.read_line().await? {
///                 writer.write(&line);
///             }
///             std::io::Result::Ok(())
///         })
///         .await
/// })?;
/// println!("listening on {}", servers.local_addrs()[0]);
/// let ended = servers.shutdown(Duration::from_secs(5))?;
/// println!("accepted {:?}, {} aborted", ended.accepted, ended.drained.aborted);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A `main` that lasts until Ctrl-C waits on a loop of its own:
///
/// ```
/// # use loop_net::{LoopRef, Signal, interrupted, run, serve_per_core};
/// # let servers = serve_per_core(1, "127.0.0.1:0", async |it| it.serve_streams(async |_, _| ()).await)?;
/// run(async {
/// #   LoopRef::current().call_soon(|| loop_selector::raise(Signal::INT));
///     interrupted().await
/// })??;
/// servers.shutdown(std::time::Duration::from_secs(5))?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// `InvalidInput` for no threads at all; if an address is bad or cannot be bound, but for one that this host does
/// not have, which is skipped if another one binds (B-SRV-13); the first error of `serve`, and of making a loop or
/// a thread. Nothing runs then any more. `InvalidInput` also where the
/// system cannot share ports.
pub fn serve_per_core<F>(threads: usize, addrs: impl ToAddrs, serve: F) -> io::Result<PerCore>
where
    F: AsyncFn(ServerBuilder) -> io::Result<Server> + Clone + Send + 'static,
{
    if threads == 0 {
        let message = "a server on no threads serves nobody";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // Bound here, so that all threads get the same port also where the system chooses it; not
    // listening, these sockets get no connections.
    let reserved = bind_each(&addrs.to_addrs()?.resolve_blocking()?, Socket::reserve)?;
    let local_addrs: Vec<SocketAddr> =
        reserved.iter().filter_map(|socket| socket.local_addr().socket_addr()).collect();
    let request = Arc::new(Request::default());
    let mut servers = PerCore { local_addrs, request, threads: Vec::new() };
    let (ready, listening) = channel();
    for index in 0..threads {
        let (serve, ready) = (serve.clone(), Ready(Some(ready.clone())));
        let (addrs, request) = (servers.local_addrs.clone(), servers.request.clone());
        let thread = thread::Builder::new()
            .name(format!("loop-{index}"))
            .spawn(move || run(&addrs, index, &serve, &request, ready))?;
        servers.threads.push(thread);
    }
    for result in listening.iter().take(threads) {
        if let Err(error) = result {
            // One that has panicked tells more.
            return Err(servers.end(Instant::now()).err().unwrap_or(error));
        }
    }
    Ok(servers)
}

/// Tells once whether a thread listens, also when it panics.
struct Ready(Option<Sender<io::Result<()>>>);

impl Ready {
    fn tell(&mut self, result: io::Result<()>) {
        if let Some(sender) = self.0.take() {
            // Whoever waited may have given up.
            let _ = sender.send(result);
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.tell(Err(io::Error::other("a thread ended before it listened")));
    }
}

/// The life of one thread.
fn run<F>(
    addrs: &[SocketAddr],
    index: usize,
    serve: &F,
    request: &Request,
    mut ready: Ready,
) -> (u64, Drained)
where
    F: AsyncFn(ServerBuilder) -> io::Result<Server>,
{
    let mut life = || -> io::Result<(u64, Drained)> {
        let mut event_loop = EventLoop::new()?;
        let net = Net::os(&event_loop);
        event_loop.run_until_complete(async {
            let server = serve(net.tcp_server(addrs).reuse_port(true)).await?;
            ready.tell(Ok(()));
            let deadline = poll_fn(|cx| request.poll(index, cx)).await;
            let drained = server.drain_until(deadline).await;
            Ok((server.accepted(), drained))
        })?
    };
    match life() {
        Ok(ended) => ended,
        Err(error) => {
            ready.tell(Err(error));
            Default::default()
        }
    }
}

/// The deadline by which all threads are to end, once there is one.
#[derive(Default)]
struct Request(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    deadline: Option<Instant>,
    /// One a thread that waits.
    wakers: Vec<(usize, Waker)>,
}

impl Request {
    fn poll(&self, index: usize, cx: &Context<'_>) -> Poll<Instant> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(deadline) = asked.deadline {
            return Poll::Ready(deadline);
        }
        asked.wakers.retain(|(other, _)| *other != index);
        asked.wakers.push((index, cx.waker().clone()));
        Poll::Pending
    }

    fn make(&self, deadline: Instant) {
        let wakers = {
            let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            asked.deadline.get_or_insert(deadline);
            std::mem::take(&mut asked.wakers)
        };
        for (_, waker) in wakers {
            waker.wake();
        }
    }
}

/// The servers of [`serve_per_core`].
///
/// Dropping it aborts their connections and waits for the threads.
#[must_use = "dropping it ends the servers"]
pub struct PerCore {
    local_addrs: Vec<SocketAddr>,
    request: Arc<Request>,
    threads: Vec<JoinHandle<(u64, Drained)>>,
}

/// How [`PerCore::shutdown`] went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PerCoreDrained {
    /// How many connections each thread has accepted.
    pub accepted: Vec<u64>,
    /// What became of the connections that were open, all threads together.
    pub drained: Drained,
}

impl PerCore {
    /// The addresses that all threads listen on.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    /// Shuts all servers down together, by one deadline: each stops listening at once, lets its
    /// connections finish for up to `grace` and aborts the rest; see [`Server::drain`]. Blocks until the
    /// threads have ended.
    ///
    /// # Errors
    /// If a thread has panicked: its payload is in the error's message if it is a text.
    pub fn shutdown(mut self, grace: Duration) -> io::Result<PerCoreDrained> {
        self.end(deadline(Instant::now(), grace))
    }

    fn end(&mut self, deadline: Instant) -> io::Result<PerCoreDrained> {
        self.request.make(deadline);
        let mut ended = PerCoreDrained::default();
        let mut failed = None;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok((accepted, drained)) => {
                    ended.accepted.push(accepted);
                    ended.drained.finished += drained.finished;
                    ended.drained.aborted += drained.aborted;
                }
                Err(panic) => failed = Some(panic),
            }
        }
        match failed {
            None => Ok(ended),
            Some(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
                Err(io::Error::other(format!("a server's thread failed: {text}")))
            }
        }
    }
}

impl Drop for PerCore {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.end(Instant::now());
    }
}

impl fmt::Debug for PerCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerCore")
            .field("local_addrs", &self.local_addrs)
            .field("threads", &self.threads.len())
            .finish()
    }
}

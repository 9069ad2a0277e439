//! hyper on this loop: its I/O, executor and timer.
//!
//! hyper wants some of them `Send`, and streams are not. So what hyper holds is a key; the stream itself
//! stays in a table of its thread.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Executor, Read, ReadBufCursor, Timer, Write};
use loop_core::{LoopRef, Remote, Sleep, sleep, sleep_until, spawn};
use slab::Slab;

use crate::stream::{StreamReader, StreamWriter};

/// A stream for hyper: clients and servers, HTTP/1 and HTTP/2, over TCP, Unix sockets or TLS.
///
/// It is `Send`, as upgrades (WebSocket, CONNECT) ask for, and may be dropped anywhere; reading and
/// writing fail on another thread than the stream's. While it lives, virtual time flows and does not
/// jump.
///
/// ```
/// # use loop_net::{LoopRef, Net, run};
/// use hyper::{Request, Response, server::conn::http1, service::service_fn};
/// use http_body_util::Full;
/// use loop_net::{HyperIo, HyperTimer};
///
/// # run(async {
/// # let net = Net::os(&LoopRef::current());
/// let server = net.tcp_server("127.0.0.1:0").serve_streams(async |reader, writer| {
///     let hello = service_fn(async |_: Request<hyper::body::Incoming>| {
///         Ok::<_, std::convert::Infallible>(Response::new(Full::new(&b"hello"[..])))
///     });
///     let io = HyperIo::new(reader, writer);
///     http1::Builder::new().timer(HyperTimer).serve_connection(io, hello).await
/// });
/// let server = server.await?;
/// # let (mut reader, writer) = net.tcp_connect(server.local_addrs()[0]).open_stream().await?;
/// # writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
/// # let answer = reader.read_to_end().await?;
/// # assert!(answer.starts_with(b"HTTP/1.1 200 OK") && answer.ends_with(b"hello"));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct HyperIo {
    key: usize,
    home: u64,
    remote: Remote,
}

type Halves = Rc<RefCell<(StreamReader, StreamWriter)>>;

/// The streams of a thread.
struct Home {
    id: u64,
    streams: RefCell<Slab<Halves>>,
}

static NEXT_HOME: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HOME: Home =
        Home { id: NEXT_HOME.fetch_add(1, Relaxed), streams: RefCell::default() };
}

impl HyperIo {
    /// The two halves of a stream.
    pub fn new(reader: StreamReader, writer: StreamWriter) -> HyperIo {
        let remote = reader.transport().loop_ref().remote();
        let halves = Rc::new(RefCell::new((reader, writer)));
        HOME.with(|home| {
            let key = home.streams.borrow_mut().insert(halves);
            HyperIo { key, home: home.id, remote }
        })
    }

    /// Gives the stream back.
    ///
    /// # Panics
    /// On another thread than the stream's.
    pub fn into_inner(self) -> (StreamReader, StreamWriter) {
        let halves = take(self.home, self.key).expect("the stream is another thread's");
        Rc::into_inner(halves).expect("nobody else has it").into_inner()
    }

    /// Runs `f` on the halves. They are borrowed meanwhile, but nobody else has this key.
    fn with<R>(
        &self,
        f: impl FnOnce(&mut StreamReader, &mut StreamWriter) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let halves = HOME.with(|home| match home.id == self.home {
            true => home.streams.borrow().get(self.key).cloned(),
            false => None,
        });
        let Some(halves) = halves else {
            let message = "a stream was used on another thread than its loop's";
            return Poll::Ready(Err(io::Error::other(message)));
        };
        let (reader, writer) = &mut *halves.borrow_mut();
        f(reader, writer)
    }

    /// Writes, and sends that at once: hyper gathers by itself, and flushes whether or not it has written.
    fn write(
        &self,
        f: impl FnOnce(Pin<&mut StreamWriter>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.with(|_, writer| {
            let written = f(Pin::new(writer));
            writer.transport().send_now();
            written
        })
    }
}

/// Out of the table of its thread, if that is this one.
fn take(home: u64, key: usize) -> Option<Halves> {
    // A thread that ends has dropped its streams.
    let taken = HOME.try_with(|this| match this.id == home {
        true => this.streams.borrow_mut().try_remove(key),
        false => None,
    });
    taken.ok().flatten()
}

impl Drop for HyperIo {
    /// Closes the connection once everything is flushed, from another thread with the loop's next
    /// iteration.
    fn drop(&mut self) {
        let (home, key) = (self.home, self.key);
        if HOME.try_with(|this| this.id == home).unwrap_or(true) {
            drop(take(home, key));
        } else {
            // A closed loop has closed its connections.
            let _ = self.remote.call_soon(move || drop(take(home, key)));
        }
    }
}

impl Read for HyperIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|reader, _| {
            ready!(reader.poll_take(cx, into.remaining(), |bytes| into.put_slice(bytes)))?;
            Poll::Ready(Ok(()))
        })
    }
}

impl Write for HyperIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(|writer| futures_io::AsyncWrite::poll_write(writer, cx, data))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(|writer| futures_io::AsyncWrite::poll_write_vectored(writer, cx, pieces))
    }

    /// What is written is on its way: what the socket did not take is not waited for.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|_, writer| futures_io::AsyncWrite::poll_close(Pin::new(writer), cx))
    }
}

impl fmt::Debug for HyperIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HyperIo").finish_non_exhaustive()
    }
}

/// Runs hyper's background work as tasks of the loop that is running; HTTP/2 needs it. The futures need
/// not be `Send`.
#[derive(Debug, Clone, Copy, Default)]
pub struct HyperExecutor;

impl<F> Executor<F> for HyperExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    /// # Panics
    /// Outside a running loop.
    fn execute(&self, future: F) {
        spawn(future).detach();
    }
}

/// hyper's time limits on the clock of the loop that is running: for header and idle timeouts, and for
/// HTTP/2's keep-alive.
#[derive(Debug, Clone, Copy, Default)]
pub struct HyperTimer;

struct HyperSleep(Sleep);

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl hyper::rt::Sleep for HyperSleep {}

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(sleep_until(deadline)))
    }

    /// # Panics
    /// Outside a running loop.
    fn now(&self) -> Instant {
        LoopRef::current().now()
    }

    /// In the same allocation.
    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(mut old) => old.0 = sleep_until(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

//! `ServerBuilder`: what a server listens on, and how.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use loop_core::{ExceptionContext, Failure, Outcome, yield_now};

use super::handle::Server;
use super::listen::{Source, listen};
use super::listener::{Accepting, Factory, Listener};
use crate::addr::{Addrs, ToAddrs};
use crate::conn::Shared;
use crate::error::Rejected;
use crate::protocol::Protocol;
use crate::sock_addr::SockAddr;
use crate::socket::{ListenOptions, Socket};
use crate::stream::{StreamProtocol, StreamReader, StreamWriter};

/// A server about to listen; from [`Net::tcp_server`](crate::Net::tcp_server),
/// [`Net::unix_server`](crate::Net::unix_server) and [`Net::server_on`](crate::Net::server_on). It may
/// listen on any number of them together.
///
/// ```
/// # use loop_net::{Net, Protocol, EventLoop};
/// # struct Quiet;
/// # impl Protocol for Quiet { fn data_received(&mut self, _: &[u8]) {} }
/// # let dir = std::env::temp_dir().join(format!("loop-net-doc-{}", std::process::id()));
/// # let path = dir.as_path();
/// let mut event_loop = EventLoop::new()?;
/// let net = Net::os(&event_loop);
/// let builder = net.tcp_server("127.0.0.1:0").and_unix(path).max_connections(1_000);
/// let server = event_loop.run_until_complete(builder.bind(|| Quiet))??;
/// assert_eq!(server.local_sock_addrs()[1].path(), Some(path));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "nothing listens before `bind` or `serve_streams`"]
pub struct ServerBuilder {
    shared: Rc<Shared>,
    sources: Vec<Source>,
    options: ListenOptions,
    keep_files: bool,
    max_connections: usize,
    proxy: Option<Duration>,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl ServerBuilder {
    fn new(shared: Rc<Shared>, source: Source) -> Self {
        ServerBuilder {
            shared,
            sources: vec![source],
            options: ListenOptions { backlog: 100, reuse_address: true, reuse_port: false },
            keep_files: false,
            max_connections: usize::MAX,
            proxy: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    pub(crate) fn tcp(shared: Rc<Shared>, addrs: io::Result<Addrs>) -> Self {
        Self::new(shared, Source::Tcp(addrs))
    }

    pub(crate) fn unix(shared: Rc<Shared>, addr: SockAddr) -> Self {
        Self::new(shared, Source::Unix(addr))
    }

    pub(crate) fn on<S: Into<OwnedFd> + AsFd>(
        shared: Rc<Shared>,
        socket: S,
    ) -> Result<Self, Rejected<S>> {
        Ok(Self::new(shared, Source::Ready(Socket::adopt(socket)?)))
    }

    /// Listens on these addresses as well; see [`Net::tcp_server`](crate::Net::tcp_server).
    pub fn and_tcp(mut self, addrs: impl ToAddrs) -> Self {
        self.sources.push(Source::Tcp(addrs.to_addrs()));
        self
    }

    /// Listens on this Unix socket as well; see [`Net::unix_server`](crate::Net::unix_server).
    pub fn and_unix(mut self, addr: impl Into<SockAddr>) -> Self {
        self.sources.push(Source::Unix(addr.into()));
        self
    }

    /// Listens on this bound socket as well; see [`Net::server_on`](crate::Net::server_on).
    ///
    /// # Errors
    /// As [`Net::server_on`](crate::Net::server_on).
    pub fn and_on<S: Into<OwnedFd> + AsFd>(mut self, socket: S) -> Result<Self, Rejected<S>> {
        self.sources.push(Source::Ready(Socket::adopt(socket)?));
        Ok(self)
    }

    /// How many connections may wait to be accepted: 100 unless set. At most as many are accepted in
    /// one iteration (B-SRV-07).
    pub fn backlog(mut self, backlog: u16) -> Self {
        self.options.backlog = i32::from(backlog.max(1));
        self
    }

    /// Whether a TCP address that a closed connection still occupies may be bound; on unless set
    /// (B-SRV-14).
    pub fn reuse_address(mut self, on: bool) -> Self {
        self.options.reuse_address = on;
        self
    }

    /// Whether several sockets may listen on one TCP address, each getting a share of the connections.
    pub fn reuse_port(mut self, on: bool) -> Self {
        self.options.reuse_port = on;
        self
    }

    /// How many connections may be open at once; any number unless set. At that number accepting
    /// stops, on all listeners, and goes on when a connection has ended: the others wait in the
    /// backlog. Zero counts as one.
    pub fn max_connections(mut self, max: usize) -> Self {
        self.max_connections = NonZeroUsize::new(max).map_or(1, NonZeroUsize::get);
        self
    }

    /// Has every connection begin with a header of the PROXY protocol, version 1 or 2, which proxies such
    /// as HAProxy and nginx put there to say whom they speak for. The addresses of the transport are
    /// those of the header then. What is no header, or has not come within `patience`, ends its
    /// connection, and is reported in debug mode. Three seconds are a good patience.
    ///
    /// Only proxies may reach such a server: anybody else could claim any address.
    pub fn proxy_protocol(mut self, patience: Duration) -> Self {
        self.proxy = Some(patience);
        self
    }

    /// Puts TLS on every connection, behind the PROXY header if there is one. A protocol or handler hears of
    /// a connection when its handshake is over, and never of one whose handshake fails: that is a report
    /// of the lowest severity.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(mut self, tls: crate::tls::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Whether the files of Unix sockets stay when the server closes; they are removed unless set
    /// (B-UNIX-02).
    pub fn keep_socket_files(mut self, keep: bool) -> Self {
        self.keep_files = keep;
        self
    }

    /// Listens, and gives each connection to a new protocol; asyncio's `create_server`. It returns once
    /// the loop watches every listener (B-SRV-01).
    ///
    /// The factory and the protocols run in the context current now. A factory that panics costs its
    /// connection only (B-SRV-11). Dropping the future before it is done leaves nothing that listens.
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
        let lp = &self.shared.lp;
        let bound = listen(lp, self.sources, self.options, self.keep_files).await?;
        #[cfg(feature = "tls")]
        let factory: Factory = match self.tls {
            Some(tls) => Box::new(move || Box::new(tls.over_boxed(factory()))),
            None => factory,
        };
        let factory = Rc::new(factory);
        let server = Server::new(self.shared.clone(), self.max_connections);
        for bound in bound {
            let listener = Listener::start(
                &self.shared,
                bound,
                self.options.backlog,
                Accepting {
                    shared: self.shared.clone(),
                    factory: factory.clone(),
                    state: server.state().clone(),
                    proxy: self.proxy,
                },
            )?;
            server.state().add(listener);
        }
        yield_now().await;
        Ok(server)
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("on", &self.sources)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

//! `Net`: where a program gets its connections from.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::rc::Rc;

use loop_core::LoopRef;

use crate::addr::ToAddrs;
use crate::adopt::Adopted;
use crate::conn::Shared;
use crate::connect::TcpConnector;
use crate::datagram::DatagramBuilder;
use crate::error::Rejected;
use crate::pipe::{ReadPipe, WritePipe};
use crate::process::ProcessBuilder;
use crate::server::ServerBuilder;
use crate::sock_addr::SockAddr;
use crate::socket::Socket;
use crate::unix::UnixConnector;

/// The network that a program is handed: all entry points are methods of this value, so that a test
/// can hand it another network.
///
/// Cheap to clone; connections made through clones share one buffer for what their hooks write.
#[derive(Clone)]
pub struct Net {
    pub(crate) shared: Rc<Shared>,
}

impl Net {
    /// The operating system's network, on this loop.
    pub fn os(lp: &LoopRef) -> Net {
        Net { shared: Shared::new(lp.clone()) }
    }

    /// The loop that connections run on.
    pub fn loop_ref(&self) -> LoopRef {
        self.shared.lp.clone()
    }

    /// A server on these addresses; asyncio's `create_server` and `start_server`. Port 0 lets the
    /// system choose.
    ///
    /// ```
    /// # use loop_net::{Net, Protocol, EventLoop};
    /// # struct Quiet;
    /// # impl Protocol for Quiet { fn data_received(&mut self, _: &[u8]) {} }
    /// let mut event_loop = EventLoop::new()?;
    /// let net = Net::os(&event_loop);
    /// let server = event_loop.run_until_complete(net.tcp_server("127.0.0.1:0").bind(|| Quiet))??;
    /// assert_ne!(server.local_addrs()[0].port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn tcp_server(&self, addrs: impl ToAddrs) -> ServerBuilder {
        ServerBuilder::tcp(self.shared.clone(), addrs.to_addrs())
    }

    /// A server on a Unix socket: a path, or on Linux an abstract name; asyncio's
    /// `create_unix_server` and `start_unix_server`.
    ///
    /// A socket file at the path that nobody listens on any more is removed first. One whose server is
    /// alive, and any other file, makes the address one in use; to find out, the server that is there
    /// is connected to once. The file is removed when the server closes (B-UNIX-01, B-UNIX-02).
    ///
    /// ```
    /// # use loop_net::{Net, run, LoopRef, SockAddr};
    /// # #[cfg(target_os = "linux")]
    /// # run(async {
    /// # let net = Net::os(&LoopRef::current());
    /// # let name = SockAddr::abstract_name(format!("loop-net-doc-{}", std::process::id()));
    /// let server = net.unix_server(name.clone()).serve_streams(async |mut reader, writer| {
    ///     while let Some(line) = reader.read_line().await? {
    ///         writer.write(&line);
    ///     }
    ///     std::io::Result::Ok(())
    /// });
    /// let server = server.await?;
    /// let (mut reader, writer) = net.unix_connect(name).open_stream().await?;
    /// writer.write(b"hello\n");
    /// assert_eq!(reader.read_line().await?.unwrap(), b"hello\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn unix_server(&self, addr: impl Into<SockAddr>) -> ServerBuilder {
        ServerBuilder::unix(self.shared.clone(), addr.into())
    }

    /// A server on a stream socket that is bound already: a `TcpListener`, a `UnixListener`, a
    /// descriptor that was inherited. The file of a Unix socket stays when the server closes
    /// (B-UNIX-03).
    ///
    /// # Errors
    /// `InvalidInput` if it is no stream socket; the socket comes back (B-SRV-15).
    pub fn server_on<S: Into<OwnedFd> + AsFd>(
        &self,
        socket: S,
    ) -> Result<ServerBuilder, Rejected<S>> {
        ServerBuilder::on(self.shared.clone(), socket)
    }

    /// The addresses of a host, looked up on the loop's own threads; asyncio's `getaddrinfo`. Dropped, a look-up
    /// that has begun goes on on its thread, for nobody.
    ///
    /// In debug mode every look-up of a name is reported, as [`Severity::Info`](loop_core::Severity::Info) if it
    /// takes the loop's [`slow_callback_duration`](LoopRef::slow_callback_duration) or longer, else as
    /// [`Severity::Debug`](loop_core::Severity::Debug) (B-DBG-05).
    ///
    /// # Errors
    /// `InvalidInput` if it is neither address nor name; what the system's resolver says, naming the host.
    pub async fn resolve(&self, addrs: impl ToAddrs) -> io::Result<Vec<SocketAddr>> {
        addrs.to_addrs()?.resolve(&self.shared.lp).await
    }

    /// A connection to these addresses, tried in order; asyncio's `create_connection` and
    /// `open_connection`.
    pub fn tcp_connect(&self, addrs: impl ToAddrs) -> TcpConnector {
        TcpConnector::new(self.shared.clone(), addrs.to_addrs())
    }

    /// A connection to a Unix socket: a path, or on Linux an abstract name; asyncio's
    /// `create_unix_connection` and `open_unix_connection`.
    pub fn unix_connect(&self, addr: impl Into<SockAddr>) -> UnixConnector {
        UnixConnector::new(self.shared.clone(), addr.into())
    }

    /// Reads from a pipe, a terminal or another one-way descriptor; asyncio's `connect_read_pipe`. It is
    /// made non-blocking, for everybody who shares the open file.
    ///
    /// ```
    /// # use loop_net::{Net, run, LoopRef};
    /// # use std::process::{Command, Stdio};
    /// # run(async {
    /// # let net = Net::os(&LoopRef::current());
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    /// let writer = net.write_pipe(child.stdin.take().unwrap())?.open_stream().await?;
    /// let mut reader = net.read_pipe(child.stdout.take().unwrap())?.open_stream().await?;
    /// writer.write(b"hello\n");
    /// assert_eq!(reader.read_line().await?.unwrap(), b"hello\n");
    /// drop(writer);
    /// // The loop closes the pipe, `cat` ends, and so does its output.
    /// assert_eq!(reader.read_to_end().await?, b"");
    /// child.wait()?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` for anything but pipes, sockets and character devices; it comes back untouched
    /// (B-PIPE-01).
    pub fn read_pipe<S: Into<OwnedFd> + AsFd>(&self, source: S) -> Result<ReadPipe, Rejected<S>> {
        ReadPipe::new(self.shared.clone(), source)
    }

    /// Writes to a pipe, a terminal or another one-way descriptor; asyncio's `connect_write_pipe`. It is
    /// made non-blocking, for everybody who shares the open file.
    ///
    /// # Errors
    /// As [`read_pipe`](Self::read_pipe).
    pub fn write_pipe<S: Into<OwnedFd> + AsFd>(&self, source: S) -> Result<WritePipe, Rejected<S>> {
        WritePipe::new(self.shared.clone(), source)
    }

    /// A child process that runs a program; asyncio's `create_subprocess_exec` and `subprocess_exec`. The
    /// arguments reach it as they are, whatever is in them (B-PROC-01).
    ///
    /// ```
    /// # use loop_net::{Net, run, LoopRef};
    /// use std::process::Command;
    /// # run(async {
    /// # let net = Net::os(&LoopRef::current());
    /// let mut sort = net.exec(Command::new("sort")).piped().spawn().await?;
    /// let output = sort.communicate(Some(b"pear\napple\n")).await?;
    /// assert!(output.status.success());
    /// assert_eq!(output.stdout, b"apple\npear\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn exec(&self, command: Command) -> ProcessBuilder {
        ProcessBuilder::new(self.shared.clone(), command)
    }

    /// A child process that runs a command line in `/bin/sh`; asyncio's `create_subprocess_shell` and
    /// `subprocess_shell`. Whoever puts words of others into it must quote them: [`exec`](Self::exec)
    /// needs no quoting.
    pub fn shell(&self, line: &str) -> ProcessBuilder {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(line);
        self.exec(command)
    }

    /// A UDP endpoint on this address; asyncio's `create_datagram_endpoint` with `local_addr`. Of several
    /// addresses the first that can be bound is taken.
    pub fn udp(&self, local: impl ToAddrs) -> DatagramBuilder {
        DatagramBuilder::udp(self.shared.clone(), Some(local.to_addrs()), None)
    }

    /// A UDP endpoint that sends to this address and hears nobody else; asyncio's
    /// `create_datagram_endpoint` with `remote_addr`. Of several addresses the first that the system has
    /// a route to is taken.
    pub fn udp_connect(&self, remote: impl ToAddrs) -> DatagramBuilder {
        DatagramBuilder::udp(self.shared.clone(), None, Some(remote.to_addrs()))
    }

    /// An endpoint on a Unix datagram socket. A socket file at the path whose owner is gone is removed
    /// first, and the endpoint's own at its end (B-UDP-12).
    pub fn unix_datagram(&self, local: impl Into<SockAddr>) -> DatagramBuilder {
        DatagramBuilder::unix(self.shared.clone(), Some(local.into()), None)
    }

    /// An endpoint that sends to a Unix datagram socket. It gets answers only if it has an address too:
    /// [`DatagramBuilder::local_unix`].
    pub fn unix_datagram_connect(&self, remote: impl Into<SockAddr>) -> DatagramBuilder {
        DatagramBuilder::unix(self.shared.clone(), None, Some(remote.into()))
    }

    /// Drives a datagram socket that somebody else has made.
    ///
    /// # Errors
    /// `InvalidInput` if it is no datagram socket; it comes back (B-UDP-11).
    pub fn adopt_datagram<S: Into<OwnedFd> + AsFd>(
        &self,
        socket: S,
    ) -> Result<DatagramBuilder, Rejected<S>> {
        DatagramBuilder::on(self.shared.clone(), socket)
    }

    /// Drives a stream socket that is connected already; asyncio's `connect_accepted_socket`
    /// (B-CONN-12).
    ///
    /// ```
    /// # use loop_net::{Net, run, LoopRef};
    /// # use std::os::unix::net::UnixStream;
    /// # run(async {
    /// # let net = Net::os(&LoopRef::current());
    /// let (ours, theirs) = UnixStream::pair()?;
    /// let (_reader, writer) = net.adopt(ours)?.open_stream().await?;
    /// writer.write(b"hello");
    /// writer.drain().await?;
    /// # let mut buffer = [0; 5];
    /// # std::io::Read::read_exact(&mut &theirs, &mut buffer)?;
    /// # assert_eq!(&buffer, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if it is no stream socket; the socket comes back.
    pub fn adopt<S: Into<OwnedFd> + AsFd>(&self, socket: S) -> Result<Adopted, Rejected<S>> {
        Ok(Adopted::new(self.shared.clone(), Socket::adopt(socket)?))
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("loop_ref", &self.shared.lp).finish()
    }
}

//! Sending files: `sendfile`, and reading and writing where the system cannot.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use loop_core::LoopRef;
use rustix::io::Errno;

use crate::async_fd::AsyncFd;
use crate::conn::Lent;
use crate::error::named;
use crate::layer::Layer;
use crate::socket::send_flags;
use crate::transport::{Transport, WriteState};

/// The most that one system call is asked to send.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_CALL: u64 = 1 << 30;
/// How much is read and written at a time where there is no `sendfile`.
const BLOCK: usize = 256 * 1024;

/// What of a file is to be sent, and how: for [`Transport::send_file`] and [`AsyncFd::send_file`].
///
/// ```
/// # use loop_net::{EventLoop, Net, SendFile};
/// # let path = std::env::current_exe()?;
/// # let mut event_loop = EventLoop::new()?;
/// # let net = Net::os(&event_loop);
/// # event_loop.run_until_complete(async {
/// # let server = net.tcp_server("127.0.0.1:0").serve_streams(async |mut reader, _writer| {
/// #     reader.read_to_end().await.map(drop)
/// # }).await?;
/// # let (_, writer) = net.tcp_connect(server.local_addrs()[0]).open_stream().await?;
/// let file = std::fs::File::open(path)?;
/// writer.write(b"HTTP/1.1 200 OK\\r\\n...");
/// let part = SendFile::new(&file).offset(100).count(1_000);
/// assert_eq!(writer.transport().send_file(part).await?, 1_000);
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is sent before it is given to `send_file`"]
pub struct SendFile<'a> {
    file: &'a File,
    offset: u64,
    count: Option<u64>,
    fallback: bool,
    native: bool,
}

impl<'a> SendFile<'a> {
    /// All of `file`, from its beginning, wherever its position is.
    pub fn new(file: &'a File) -> Self {
        SendFile { file, offset: 0, count: None, fallback: true, native: true }
    }

    /// Begins at this byte.
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sends at most so many bytes.
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Whether the file is read on the loop's threads and written where the system cannot send it
    /// itself; on unless set. Off, that is an error of the kind `Unsupported` (B-SFL-04).
    pub fn fallback(mut self, on: bool) -> Self {
        self.fallback = on;
        self
    }

    /// Whether the system is asked at all; on unless set. Off, only the fallback is used.
    pub fn native(mut self, on: bool) -> Self {
        self.native = on;
        self
    }

    /// Sends everything; how many bytes.
    async fn send(self, lp: &LoopRef, out: &impl Out) -> io::Result<u64> {
        if self.count == Some(0) {
            let message = "no bytes of the file are to be sent";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let position = Position { file: self.file, at: Cell::new(self.offset) };
        if self.native {
            match self.send_native(out, &position).await {
                Err(error) if position.at.get() == self.offset && is_unsupported(&error) => {}
                result => return result.map(|()| position.at.get() - self.offset),
            }
        }
        if !self.fallback {
            let message = "the system cannot send this file itself";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        self.send_blocks(lp, out, &position).await?;
        Ok(position.at.get() - self.offset)
    }

    /// How much is left to send, `max` at most.
    fn left(&self, position: &Position<'_>, max: u64) -> u64 {
        let sent = position.at.get() - self.offset;
        self.count.map_or(max, |count| max.min(count - sent))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    async fn send_native(&self, out: &impl Out, position: &Position<'_>) -> io::Result<()> {
        loop {
            let want = self.left(position, MAX_CALL);
            if want == 0 {
                return Ok(());
            }
            let sent = out.write_with(|fd| {
                let mut at = position.at.get();
                let sent = rustix::fs::sendfile(fd, self.file, Some(&mut at), want as usize)?;
                position.at.set(at);
                Ok(sent)
            });
            if sent.await? == 0 {
                return Ok(());
            }
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    async fn send_native(&self, _: &impl Out, _: &Position<'_>) -> io::Result<()> {
        Err(Errno::NOSYS.into())
    }

    async fn send_blocks(
        &self,
        lp: &LoopRef,
        out: &impl Out,
        position: &Position<'_>,
    ) -> io::Result<()> {
        let file = Arc::new(self.file.try_clone()?);
        let mut block = Vec::new();
        loop {
            let want = self.left(position, BLOCK as u64) as usize;
            if want == 0 {
                return Ok(());
            }
            let (file, at) = (file.clone(), position.at.get());
            // The block goes to the thread and comes back.
            let read = lp.run_blocking(move || {
                block.resize(want, 0);
                let count = file.read_at(&mut block, at);
                count.map(|count| (block, count))
            });
            let (read, count) = read.await?.map_err(|error| named("read the file", error))?;
            block = read;
            if count == 0 {
                return Ok(());
            }
            let mut rest = &block[..count];
            while !rest.is_empty() {
                let sent = out.write(rest).await?;
                position.at.set(position.at.get() + sent as u64);
                rest = &rest[sent..];
            }
        }
    }
}

/// Sockets do not raise SIGPIPE; pipes cannot be sent to.
fn send(fd: impl AsFd, data: &[u8]) -> io::Result<usize> {
    match rustix::net::send(&fd, data, send_flags()) {
        Err(Errno::NOTSOCK) => Ok(rustix::io::write(&fd, data)?),
        result => Ok(result?),
    }
}

/// Before the first byte, these say that this kind of file or descriptor cannot do it.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::SPIPE | Errno::OVERFLOW)
    )
}

/// Leaves the file behind the last byte that was sent, also after an error and when the future is
/// dropped (B-SFL-01).
struct Position<'a> {
    file: &'a File,
    at: Cell<u64>,
}

impl Drop for Position<'_> {
    fn drop(&mut self) {
        let mut file = self.file;
        // A file without a position has none to be left at.
        let _ = file.seek(SeekFrom::Start(self.at.get()));
    }
}

/// Where a file goes.
trait Out {
    /// Sends some of `data`; how much.
    async fn write(&self, data: &[u8]) -> io::Result<usize> {
        self.write_with(|fd| send(fd, data)).await
    }

    /// Tries `f` until it does not say `WouldBlock`.
    async fn write_with<T>(
        &self,
        f: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T>;
}

impl<S: AsFd + 'static> Out for AsyncFd<S> {
    async fn write_with<T>(
        &self,
        mut f: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        AsyncFd::write_with(self, |source| f(source.as_fd())).await
    }
}

impl Out for Lent {
    async fn write_with<T>(
        &self,
        mut f: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        Lent::write_with(self, |socket| f(socket.as_fd())).await
    }
}

/// A TLS connection that takes no writes but ours, and delivers nothing, until this is dropped
/// (B-SFL-06).
struct LentLayer {
    transport: Transport,
    layer: Weak<dyn Layer>,
}

impl LentLayer {
    async fn borrow(transport: &Transport) -> io::Result<LentLayer> {
        let layer = transport.layer().filter(|layer| !layer.is_closing()).ok_or_else(closed)?;
        if layer.is_lent() {
            let message = "a file is being sent on this connection already";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        layer.set_lent(true);
        let lent = LentLayer { transport: transport.clone(), layer: Rc::downgrade(&layer) };
        drop(layer);
        lent.flushed().await?;
        Ok(lent)
    }

    async fn flushed(&self) -> io::Result<()> {
        self.transport.flushed().await;
        if self.transport.is_closing() { Err(closed()) } else { Ok(()) }
    }
}

impl Out for LentLayer {
    /// What was taken was also sent, so that the file's position is right (B-SFL-01).
    async fn write(&self, data: &[u8]) -> io::Result<usize> {
        match self.layer.upgrade().map(|layer| layer.write_lent(data)) {
            None | Some(WriteState::Closed) => Err(closed()),
            Some(WriteState::Open | WriteState::Full) => {
                self.flushed().await?;
                Ok(data.len())
            }
        }
    }

    /// There is no descriptor that encrypts (B-SFL-07).
    async fn write_with<T>(
        &self,
        _: impl FnMut(std::os::fd::BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        Err(Errno::OPNOTSUPP.into())
    }
}

impl Drop for LentLayer {
    fn drop(&mut self) {
        if let Some(layer) = self.layer.upgrade() {
            layer.set_lent(false);
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection is closed")
}

impl<S: AsFd + 'static> AsyncFd<S> {
    /// Sends a file, without copying it through the program where the system can do that; asyncio's
    /// `sock_sendfile`. Returns how many bytes were sent: fewer than asked for at the end of the file.
    ///
    /// The file's position is left behind the last byte sent, also on an error and when the future is
    /// dropped; some of the file may have been sent then (B-SFL-01).
    ///
    /// # Errors
    /// `InvalidInput` for a count of zero; what `sendfile`, reading or sending says, naming the
    /// descriptor; `Unsupported` if the system cannot and the fallback is off.
    pub async fn send_file(&self, what: SendFile<'_>) -> io::Result<u64> {
        let sent = what.send(self.loop_ref(), self).await;
        sent.map_err(|error| self.named("send a file to", error))
    }
}

impl Transport {
    /// Sends a file, without copying it through the program where the system can do that; asyncio's
    /// `loop.sendfile`. Returns how many bytes were sent: fewer than asked for at the end of the file.
    ///
    /// What was written before is flushed first. Until this is done nothing is read, and writes are
    /// refused like those that come too late; after it everything goes on as before, also after an
    /// error and when the future is dropped (B-SFL-06). The file's position is left behind the last byte
    /// sent, in any case; when it ended early, some of the file may have been sent (B-SFL-01).
    ///
    /// # Errors
    /// `NotConnected` if the connection is closed, closing, or its side was ended (B-SFL-08), also
    /// meanwhile; `ResourceBusy` while another file is being sent; `InvalidInput` for a count of zero;
    /// what `sendfile`, reading or sending says, naming the peer; `Unsupported` if the system cannot and
    /// the fallback is off: on TLS connections it never can.
    pub async fn send_file(&self, what: SendFile<'_>) -> io::Result<u64> {
        let sent = if self.is_layered() {
            what.send(self.loop_ref(), &LentLayer::borrow(self).await?).await
        } else {
            let conn = self.conn().ok_or_else(closed)?;
            what.send(self.loop_ref(), &Lent::borrow(conn).await?).await
        };
        sent.map_err(|error| named(format!("send a file on the {}", self.describe()), error))
    }
}

//! `AsyncFd`, level 1: any descriptor, used when it is ready.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Rc;

use loop_core::LoopRef;

use crate::error::{Rejected, named};
use crate::waits::{Direction, Waits};

/// A descriptor that tasks wait for: asyncio's `sock_*` operations, on sockets, pipes, terminals and
/// whatever else can be polled.
///
/// Every operation tries first and waits only if it would block (B-SOCK-01). Dropping its future ends
/// the wait at once; the documentation of each says what is lost then. Reading and writing may go on at
/// the same time; a second operation in the same direction is refused with
/// [`ResourceBusy`](io::ErrorKind::ResourceBusy) while the first one waits (B-SOCK-07).
///
/// ```
/// use loop_net::{AsyncFd, LoopRef, run};
/// use std::os::unix::net::UnixStream;
///
/// run(async {
///     let lp = LoopRef::current();
///     let (ours, theirs) = UnixStream::pair()?;
///     let (ours, theirs) = (AsyncFd::new(&lp, ours)?, AsyncFd::new(&lp, theirs)?);
///     ours.write_all(b"hello").await?;
///     let mut buffer = [0; 16];
///     let count = theirs.read(&mut buffer).await?;
///     assert_eq!(&buffer[..count], b"hello");
///     std::io::Result::Ok(())
/// })??;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Descriptors that are always ready, regular files above all, never wait, so they work also where the
/// selector refuses them; they block the loop while the disk is slow.
///
/// Making a descriptor non-blocking affects everybody who shares the open file: with a terminal, other
/// programs that use it. [`AsyncFd::new`] remembers how it was, and the end of the `AsyncFd` restores it.
pub struct AsyncFd<S: AsFd + 'static> {
    lp: LoopRef,
    /// Always there until the end.
    source: Option<Rc<S>>,
    fd: RawFd,
    waits: Rc<Waits>,
    was_blocking: bool,
}

impl<S: AsFd + 'static> AsyncFd<S> {
    /// Takes over a descriptor and makes it non-blocking.
    ///
    /// # Errors
    /// What `fcntl` says. The descriptor comes back; `?` turns the error into an [`io::Error`].
    pub fn new(lp: &LoopRef, source: S) -> Result<Self, Rejected<S>> {
        let fd = source.as_fd().as_raw_fd();
        match set_nonblocking(&source, true) {
            Ok(was_blocking) => Ok(AsyncFd {
                lp: lp.clone(),
                source: Some(Rc::new(source)),
                fd,
                waits: Rc::new(Waits::new(lp.clone(), fd)),
                was_blocking,
            }),
            Err(error) => {
                let error = named(format!("make fd {fd} non-blocking"), error);
                Err(Rejected { source, error })
            }
        }
    }

    /// The descriptor's owner.
    pub fn get_ref(&self) -> &S {
        self.source.as_ref().expect("it is taken at the end only")
    }

    /// The loop that is waited on.
    pub fn loop_ref(&self) -> &LoopRef {
        &self.lp
    }

    /// Gives the descriptor back, in the mode in which it came.
    pub fn into_inner(mut self) -> S {
        self.restore();
        let source = self.source.take().expect("it is taken at the end only");
        // The selector's share went with the registration.
        Rc::into_inner(source).expect("nobody else has the owner")
    }

    /// Waits until something can be read: bytes, a connection, the end of the file or an error. Dropped, nothing
    /// is lost.
    ///
    /// # Errors
    /// What the selector says when it refuses the descriptor, naming it; `ResourceBusy` if another
    /// operation waits to read, or if the descriptor belongs to a transport or another `AsyncFd`
    /// (B-SOCK-08).
    pub async fn readable(&self) -> io::Result<()> {
        self.wait(Direction::Read).await
    }

    /// Waits until something can be written, or a connect has ended. Dropped, nothing is lost.
    ///
    /// # Errors
    /// As [`readable`](Self::readable), for writing.
    pub async fn writable(&self) -> io::Result<()> {
        self.wait(Direction::Write).await
    }

    /// Tries `f` until it does not say [`WouldBlock`](io::ErrorKind::WouldBlock), waiting to read in
    /// between: any operation of your own. An interrupted one is repeated at once. Dropped, `f` has not
    /// succeeded.
    ///
    /// # Errors
    /// Those of `f`, and those of [`readable`](Self::readable).
    pub async fn read_with<T>(&self, f: impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
        self.retry(Direction::Read, f).await
    }

    /// Tries `f` until it does not say [`WouldBlock`](io::ErrorKind::WouldBlock), waiting to write in
    /// between; otherwise as [`read_with`](Self::read_with).
    ///
    /// # Errors
    /// Those of `f`, and those of [`writable`](Self::writable).
    pub async fn write_with<T>(&self, f: impl FnMut(&S) -> io::Result<T>) -> io::Result<T> {
        self.retry(Direction::Write, f).await
    }

    /// Reads once, at most as much as fits; 0 is the end of the file. Dropped, nothing is lost.
    ///
    /// # Errors
    /// What `read` says, naming the descriptor, and those of [`readable`](Self::readable).
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(|source| Ok(rustix::io::read(source, &mut *buffer)?))
            .await
            .map_err(|error| self.named("read from", error))
    }

    /// Writes once, as much as is taken now. Dropped, nothing was written.
    ///
    /// # Errors
    /// What `write` says, naming the descriptor, and those of [`writable`](Self::writable).
    pub async fn write(&self, data: &[u8]) -> io::Result<usize> {
        self.write_with(|source| Ok(rustix::io::write(source, data)?))
            .await
            .map_err(|error| self.named("write to", error))
    }

    /// Writes all of `data` (B-SOCK-02). Dropped, some of it may have been written, and how much is
    /// not known.
    ///
    /// # Errors
    /// As [`write`](Self::write); some of `data` may have been written before.
    pub async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            match self.write(data).await? {
                0 => return Err(self.named("write to", io::ErrorKind::WriteZero.into())),
                count => data = &data[count..],
            }
        }
        Ok(())
    }

    pub(crate) fn named(&self, what: &str, error: io::Error) -> io::Error {
        named(format!("{what} fd {}", self.fd), error)
    }

    async fn retry<T>(
        &self,
        direction: Direction,
        mut f: impl FnMut(&S) -> io::Result<T>,
    ) -> io::Result<T> {
        self.waits.slot(direction).check(self.fd)?;
        loop {
            match f(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(direction).await?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    async fn wait(&self, direction: Direction) -> io::Result<()> {
        let slot = self.waits.slot(direction);
        slot.check(self.fd)?;
        slot.begin();
        self.waits.enlist();
        let wait = Wait { owner: self, direction };
        self.want()?;
        poll_fn(|cx| slot.poll(cx)).await;
        drop(wait);
        Ok(())
    }

    /// Tells the loop what is waited for now. Registered with the first wait; the selector hears of
    /// changes once an iteration, so that waiting again for the same costs no call.
    fn want(&self) -> io::Result<()> {
        if self.waits.tell() {
            return Ok(());
        }
        let interest = self.waits.interest();
        let (Some(source), Some(interest)) = (&self.source, interest) else { return Ok(()) };
        let token =
            self.lp.register_io(source.clone(), interest, self.waits.clone()).map_err(|error| {
                match io::Error::from(error) {
                    error if error.kind() == io::ErrorKind::AlreadyExists => {
                        let message =
                            format!("fd {} belongs to a transport or another AsyncFd", self.fd);
                        io::Error::new(io::ErrorKind::ResourceBusy, message)
                    }
                    error => error,
                }
            })?;
        self.waits.token.set(Some(token));
        Ok(())
    }

    fn restore(&self) {
        if let Some(token) = self.waits.token.take() {
            drop(self.lp.deregister_io(token));
        }
        if self.was_blocking {
            // It was possible before; there is nobody to tell if it is not now.
            let _ = set_nonblocking(self.get_ref(), false);
        }
    }
}

impl<S: AsFd + 'static> Drop for AsyncFd<S> {
    /// Unregisters before the descriptor can be closed.
    fn drop(&mut self) {
        if self.source.is_some() {
            self.restore();
        }
    }
}

impl<S: AsFd + 'static> AsFd for AsyncFd<S> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<S: AsFd + 'static> fmt::Debug for AsyncFd<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd").field("fd", &self.fd).finish_non_exhaustive()
    }
}

/// Whether it was the other way before.
pub(crate) fn set_nonblocking(fd: &impl AsFd, on: bool) -> io::Result<bool> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let flags = fcntl_getfl(fd)?;
    if flags.contains(OFlags::NONBLOCK) == on {
        return Ok(false);
    }
    fcntl_setfl(fd, flags ^ OFlags::NONBLOCK)?;
    Ok(true)
}

/// An operation that waits. Ending it takes its interest away at once (B-SOCK-06).
struct Wait<'a, S: AsFd + 'static> {
    owner: &'a AsyncFd<S>,
    direction: Direction,
}

impl<S: AsFd + 'static> Drop for Wait<'_, S> {
    fn drop(&mut self) {
        let waits = &self.owner.waits;
        waits.slot(self.direction).end();
        waits.tell();
    }
}

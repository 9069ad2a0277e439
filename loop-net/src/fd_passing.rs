//! Passing descriptors over Unix sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage,
};

use self::cloexec::{close_on_exec, recv_flags};
use crate::async_fd::AsyncFd;
use crate::socket::send_flags;

/// Unix sockets only.
impl<S: AsFd + 'static> AsyncFd<S> {
    /// Sends `data`, and with its first byte duplicates of `fds`: how many bytes. At least one byte is
    /// needed, for descriptors alone do not travel. Dropped, nothing was sent.
    ///
    /// ```
    /// # use loop_net::{AsyncFd, LoopRef, run};
    /// # use std::io::{Read, Write};
    /// # use std::os::{fd::AsFd, unix::net::UnixStream};
    /// # run(async {
    /// # let lp = LoopRef::current();
    /// let (ours, theirs) = UnixStream::pair()?;
    /// let (ours, theirs) = (AsyncFd::new(&lp, ours)?, AsyncFd::new(&lp, theirs)?);
    /// let (sent, mut kept) = UnixStream::pair()?;
    /// ours.send_with_fds(b"a socket", &[sent.as_fd()]).await?;
    /// let (data, fds) = theirs.recv_with_fds(16, 1).await?;
    /// assert_eq!((&data[..], fds.len()), (&b"a socket"[..], 1));
    /// # let mut file = std::fs::File::from(fds.into_iter().next().unwrap());
    /// # kept.write_all(b"!")?;
    /// # file.read_exact(&mut [0])?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` without a byte or with more descriptors than the system passes at once (253 on
    /// Linux); what `sendmsg` says, naming the descriptor; those of [`writable`](Self::writable).
    pub async fn send_with_fds(&self, data: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        if data.is_empty() {
            let message = "descriptors need at least one byte to go with";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let sent = self.write_with(|source| {
            let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(fds.len()))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() {
                let pushed = control.push(SendAncillaryMessage::ScmRights(fds));
                debug_assert!(pushed, "the space was made for them");
            }
            Ok(rustix::net::sendmsg(source, &[IoSlice::new(data)], &mut control, send_flags())?)
        });
        sent.await.map_err(|error| self.named("send descriptors to", error))
    }

    /// Receives up to `max` bytes and up to `max_fds` descriptors that came with them, close-on-exec; no
    /// bytes at the end of the stream. Dropped, nothing is lost.
    ///
    /// # Errors
    /// `InvalidData` if more descriptors came than `max_fds`, "too many open files" if this process may not have
    /// more of them: all that came are closed, and the bytes are lost. What `recvmsg` says, naming the descriptor,
    /// and those of
    /// [`readable`](Self::readable).
    pub async fn recv_with_fds(
        &self,
        max: usize,
        max_fds: usize,
    ) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let received = self.read_with(|source| {
            let mut data = vec![0; max];
            let mut space = vec![MaybeUninit::uninit(); cmsg_space!(ScmRights(max_fds))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(&mut data)];
            let message = rustix::net::recvmsg(source, &mut slices, &mut control, recv_flags())?;
            let mut fds = Vec::new();
            for part in control.drain() {
                if let RecvAncillaryMessage::ScmRights(some) = part {
                    fds.extend(some);
                }
            }
            close_on_exec(&fds)?;
            let truncated = message.flags.contains(ReturnFlags::CTRUNC);
            if truncated && fds.len() < max_fds {
                // There was room for more of them: this process may not have more.
                return Err(rustix::io::Errno::MFILE.into());
            }
            // Padding may have made room for one more than asked for.
            if truncated || fds.len() > max_fds {
                let message = format!("more than {max_fds} descriptors came");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            data.truncate(message.bytes);
            Ok((data, fds))
        });
        received.await.map_err(|error| self.named("receive descriptors from", error))
    }
}

#[cfg(not(any(target_vendor = "apple", target_os = "illumos", target_os = "solaris")))]
mod cloexec {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::net::RecvFlags;

    pub(super) fn recv_flags() -> RecvFlags {
        RecvFlags::CMSG_CLOEXEC
    }

    pub(super) fn close_on_exec(_: &[OwnedFd]) -> io::Result<()> {
        Ok(())
    }
}

/// A program that another thread starts between the two calls inherits them: these systems have nothing better.
#[cfg(any(target_vendor = "apple", target_os = "illumos", target_os = "solaris"))]
mod cloexec {
    use std::io;
    use std::os::fd::OwnedFd;

    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::net::RecvFlags;

    pub(super) fn recv_flags() -> RecvFlags {
        RecvFlags::empty()
    }

    pub(super) fn close_on_exec(fds: &[OwnedFd]) -> io::Result<()> {
        fds.iter().try_for_each(|fd| Ok(fcntl_setfd(fd, FdFlags::CLOEXEC)?))
    }
}

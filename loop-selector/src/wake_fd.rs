//! The descriptor behind a waker: an eventfd, a pipe or a pair of sockets.
//!
//! It only ever says "look"; it never carries data, so that a full one loses nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;

/// A descriptor that becomes readable when it is written to. Close-on-exec, non-blocking.
#[derive(Debug)]
pub(crate) struct WakeFd {
    read: OwnedFd,
    /// The other end of a pipe or pair; an eventfd is its own.
    write: Option<OwnedFd>,
}

impl WakeFd {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(crate) fn eventfd() -> io::Result<WakeFd> {
        use rustix::event::{EventfdFlags, eventfd};
        let read = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(WakeFd { read, write: None })
    }

    pub(crate) fn pipe() -> io::Result<WakeFd> {
        let (read, write) = cloexec_pipe()?;
        for end in [&read, &write] {
            let flags = rustix::fs::fcntl_getfl(end)?;
            rustix::fs::fcntl_setfl(end, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        Ok(WakeFd { read, write: Some(write) })
    }

    pub(crate) fn socketpair() -> io::Result<WakeFd> {
        let (read, write) = UnixStream::pair()?; // close-on-exec, as all that std opens
        for end in [&read, &write] {
            end.set_nonblocking(true)?;
        }
        Ok(WakeFd { read: read.into(), write: Some(write.into()) })
    }

    /// Makes it readable. One write(2), nothing else: async-signal-safe.
    pub(crate) fn write(&self) {
        let end = self.write.as_ref().unwrap_or(&self.read);
        // EAGAIN is no failure (B-THR-04): it is full, so it is readable. EINTR wrote nothing.
        // Nothing else can happen to a descriptor that we hold.
        while rustix::io::write(end, &1u64.to_ne_bytes()) == Err(Errno::INTR) {}
    }

    /// Reads until there is nothing left (B-THR-06).
    pub(crate) fn drain(&self) {
        let mut scratch = [0u8; 256];
        // An eventfd gives its whole count in one read; the others may need a second look.
        loop {
            match rustix::io::read(&self.read, &mut scratch) {
                Ok(n) if n == scratch.len() => {}
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

impl AsFd for WakeFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

fn cloexec_pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    // Apple's kernels have no pipe2: there a fork between the two steps can inherit the pipe.
    #[cfg(target_vendor = "apple")]
    {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
        }
        Ok((read, write))
    }
    #[cfg(not(target_vendor = "apple"))]
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<WakeFd> {
        vec![
            #[cfg(any(target_os = "linux", target_os = "android"))]
            WakeFd::eventfd().unwrap(),
            WakeFd::pipe().unwrap(),
            WakeFd::socketpair().unwrap(),
        ]
    }

    fn is_readable(wake_fd: &WakeFd) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(wake_fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn b_thr_06_a_drain_undoes_all_writes_however_many() {
        for wake_fd in all() {
            assert!(!is_readable(&wake_fd));
            wake_fd.drain();
            for _ in 0..5_000 {
                wake_fd.write();
            }
            assert!(is_readable(&wake_fd));
            wake_fd.drain();
            assert!(!is_readable(&wake_fd));
        }
    }

    #[test]
    fn b_thr_04_a_full_one_is_not_an_error() {
        for wake_fd in all() {
            match &wake_fd.write {
                Some(end) => while rustix::io::write(end, &[0; 8]).is_ok() {},
                None => drop(rustix::io::write(&wake_fd.read, &(u64::MAX - 1).to_ne_bytes())),
            }
            wake_fd.write(); // would block for ever if it could block
            assert!(is_readable(&wake_fd));
            wake_fd.drain();
            assert!(!is_readable(&wake_fd));
        }
    }

    #[test]
    fn b_sel_31_it_is_close_on_exec() {
        use rustix::io::{FdFlags, fcntl_getfd};
        for wake_fd in all() {
            for end in [Some(&wake_fd.read), wake_fd.write.as_ref()].into_iter().flatten() {
                assert!(fcntl_getfd(end).unwrap().contains(FdFlags::CLOEXEC));
            }
        }
    }
}

//! `/dev/poll`: Solaris's and illumos's. The kernel remembers what is written to a device.
//!
//! Type-checked for its systems, its translation tested everywhere; not yet seen on a real kernel.

#![allow(unsafe_code)]

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use rustix::io::{Errno, fcntl_getfd};

use super::devpoll_event::{POLLIN, POLLNVAL, POLLOUT, PollFd, readiness, remove, replace};
use super::kernel::{Backend, Kernel, Watched};
use crate::error::SelectorError;
use crate::event::Events;
use crate::interest::Interest;
use crate::registry::Entry;
use crate::timeout::whole_millis;
use crate::waker::Waker;

const NAME: &str = "devpoll";

const _: () = assert!(
    POLLIN == libc::POLLIN
        && POLLOUT == libc::POLLOUT
        && POLLNVAL == libc::POLLNVAL
        && size_of::<PollFd>() == size_of::<libc::pollfd>()
);

/// `DP_POLL` of `sys/devpoll.h`: `(0xD0 << 8) | 1`.
const DP_POLL: libc::c_int = 0xD001;

/// `struct dvpoll` of `sys/devpoll.h`.
#[repr(C)]
struct DvPoll {
    fds: *mut PollFd,
    nfds: libc::nfds_t,
    timeout: libc::c_int,
    /// Solaris has no such field, and `DP_POLL` does not look at it.
    sigset: *mut libc::sigset_t,
}

/// Solaris's and illumos's selector. Refuses a closed descriptor with `EBADF`; one that is closed
/// while it is watched is reported ready for all it is watched for, and is silent then until it is
/// watched for something again. Timeouts are rounded up to a millisecond.
///
/// After a `fork` the child must not use the parent's device: there everything but `deregister` and
/// dropping fails (B-SEL-31).
///
/// Not yet seen on a real kernel.
pub struct DevpollSelector {
    watched: Watched<Devpoll>,
    buffer: Vec<PollFd>,
}

pub(crate) struct Devpoll(File);

impl DevpollSelector {
    /// A `/dev/poll`, close-on-exec, that watches nothing but a waker of its own.
    ///
    /// # Errors
    /// Those of opening it, and of [`Waker::new`].
    pub fn new() -> io::Result<DevpollSelector> {
        DevpollSelector::with_waker(Waker::new().map_err(|e| SelectorError::create(NAME, e))?)
    }

    /// The same around a waker that exists already, which no other selector may wait for.
    ///
    /// # Errors
    /// Those of opening `/dev/poll`.
    pub fn with_waker(waker: Waker) -> io::Result<DevpollSelector> {
        let devpoll = Devpoll::new(&waker).map_err(|e| SelectorError::create(NAME, e))?;
        Ok(DevpollSelector { watched: Watched::new(devpoll, waker)?, buffer: Vec::new() })
    }
}

impl Devpoll {
    fn new(waker: &Waker) -> io::Result<Devpoll> {
        // std opens close-on-exec.
        let devpoll = Devpoll(OpenOptions::new().read(true).write(true).open("/dev/poll")?);
        devpoll.write(&replace(waker.raw_fd(), Interest::READ))?;
        Ok(devpoll)
    }

    fn write(&self, changes: &[PollFd]) -> Result<(), Errno> {
        let (start, length) = (changes.as_ptr().cast(), size_of_val(changes));
        loop {
            // SAFETY: the kernel reads `length` bytes, which are the slice's; a `PollFd` has no
            // padding, and the layout that the device expects.
            let written = unsafe { libc::write(self.0.as_raw_fd(), start, length) };
            match usize::try_from(written) {
                Ok(written) if written == length => return Ok(()),
                Ok(_) => return Err(Errno::IO),
                Err(_) => match last_errno() {
                    Errno::INTR => {}
                    errno => return Err(errno),
                },
            }
        }
    }

    /// Adds what is ready to `buffer`, as much as there is room for.
    fn wait(&self, buffer: &mut Vec<PollFd>, timeout: Option<Duration>) -> Result<(), Errno> {
        let (length, room) = (buffer.len(), buffer.spare_capacity_mut());
        let mut call = DvPoll {
            fds: room.as_mut_ptr().cast(),
            nfds: room.len() as libc::nfds_t,
            timeout: whole_millis(timeout).unwrap_or(-1),
            sigset: ptr::null_mut(),
        };
        // SAFETY: the kernel reads `call` and writes at most `nfds` entries to `room`, which has
        // space for them.
        let found = unsafe { libc::ioctl(self.0.as_raw_fd(), DP_POLL, &raw mut call) };
        let found = usize::try_from(found).map_err(|_| last_errno())?;
        // SAFETY: the kernel has filled in the first `found` entries, at most `nfds`.
        unsafe { buffer.set_len(length + found) };
        Ok(())
    }
}

/// Why the last call of libc failed.
fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Kernel for Devpoll {
    const NAME: &'static str = NAME;

    fn arm(&mut self, entry: &Entry, _: Option<Interest>, interest: Interest) -> io::Result<()> {
        fcntl_getfd(entry)?;
        Ok(self.write(&replace(entry.fd(), interest))?)
    }

    fn disarm(&mut self, entry: &Entry) {
        // A refusal means that it was forgotten already (B-SEL-08).
        let _ = self.write(&[remove(entry.fd())]);
    }
}

impl Backend for DevpollSelector {
    type Kernel = Devpoll;

    fn watched(&self) -> &Watched<Devpoll> {
        &self.watched
    }

    fn watched_mut(&mut self) -> &mut Watched<Devpoll> {
        &mut self.watched
    }

    fn wait(&mut self, _: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.reserve(self.watched.registry.len() + 1);
        Ok(self.watched.kernel.wait(&mut self.buffer, timeout)?)
    }

    fn report(&mut self, events: &mut Events) -> io::Result<()> {
        let Watched { kernel, registry, waker, .. } = &mut self.watched;
        for answer in &self.buffer {
            if answer.fd == waker.raw_fd() {
                waker.drain();
                continue;
            }
            let Some(token) = registry.by_fd(answer.fd) else {
                // Closed behind our back, and deregistered since: it must not be reported for ever.
                let _ = kernel.write(&[remove(answer.fd)]);
                continue;
            };
            events.extend(registry.event(token, readiness(answer.revents)));
            if answer.revents & POLLNVAL != 0 {
                // The kernel may have forgotten it first.
                let _ = kernel.write(&[remove(answer.fd)]);
                registry.set_interest(token, None)?;
            }
        }
        Ok(())
    }

    /// None: on Solaris the device itself cannot be polled.
    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl fmt::Debug for DevpollSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevpollSelector")
            .field("device", &self.watched.kernel.0)
            .field("registry", &self.watched.registry)
            .finish_non_exhaustive()
    }
}

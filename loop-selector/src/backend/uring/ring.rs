//! The ring: queues shared with the kernel, behind an interface of numbers.
//!
//! # Why this is sound
//!
//! - **The kernel is handed no memory.** The operations are NOP, POLL_ADD and POLL_REMOVE. What they
//!   say is three numbers: a descriptor, a mask, a user-data word. The kernel copies an entry when it
//!   takes it. So nothing has to outlive an operation, none has to be waited for, and dropping the
//!   ring at any moment leaves nothing behind that could be written to.
//! - **User data is a number**, never a pointer: a completion that nobody expects is ignored.
//! - **Descriptors stay open**: those that are polled belong to owners whom the registry keeps until
//!   they are deregistered, or to the waker. Were one closed all the same, the answer would be EBADF,
//!   or the readiness of another file: wrong news, but not wrong memory.
//! - **One view at a time.** The queues are reached through views that each exist within one method
//!   here; none of these calls anything that could make a second one, and a `Ring` is not `Sync`.
//! - **A wait's timeout** is on the stack of the call that passes it.
//! - **A child of `fork`** inherits the mapping, so that touching it is no fault; that the child does
//!   not is the selector's business.
//!
//! An operation that is given memory, a read say, would need another argument: it does not exist.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::event::PollFlags;

use crate::timeout::LONGEST;

/// How long to wait for a completion: `None` for ever, zero not at all.
pub(super) type Wait = Option<Duration>;

/// Do not wait.
pub(super) const NOW: Wait = Some(Duration::ZERO);

/// What became of an operation: its user data, and its result or negated errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    pub(super) tag: u64,
    pub(super) result: i32,
}

pub(super) struct Ring {
    io: IoUring,
    not_sync: PhantomData<Cell<()>>,
    /// How often `enter` was called.
    #[cfg(test)]
    pub(super) calls: Cell<u32>,
}

impl Ring {
    /// A ring for at least that many entries, close-on-exec as every ring is, that was seen to
    /// work: a no-op, and a poll of `probe` for writing, which is writable, have gone through it.
    ///
    /// Kernels from 6.0 on are told that this thread alone submits and will come for its
    /// completions, which saves an interrupt each. Never with a submission thread (SQPOLL).
    pub(super) fn new(
        submissions: u32,
        completions: u32,
        probe: BorrowedFd<'_>,
    ) -> io::Result<Ring> {
        let mut tuned = builder(completions);
        tuned.setup_single_issuer().setup_coop_taskrun().setup_submit_all();
        let ring = match tuned.build(submissions) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Ring::plain(submissions, completions)?
            }
            io => Ring::around(io?)?,
        };
        ring.probe(probe)?;
        Ok(ring)
    }

    /// What kernels before 6.0 have.
    pub(super) fn plain(submissions: u32, completions: u32) -> io::Result<Ring> {
        Ring::around(builder(completions).build(submissions)?)
    }

    fn around(io: IoUring) -> io::Result<Ring> {
        let has = io.params();
        // Without them: completions that do not fit are lost, and a wait has no timeout.
        if !has.is_feature_nodrop() || !has.is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "Linux 5.11 is needed"));
        }
        Ok(Ring {
            io,
            not_sync: PhantomData,
            #[cfg(test)]
            calls: Cell::new(0),
        })
    }

    /// Set-up succeeds under limits and filters that then let nothing through.
    fn probe(&self, writable: BorrowedFd<'_>) -> io::Result<()> {
        self.push_no_op(0);
        self.outcome()?;
        self.push_poll(writable, PollFlags::OUT, 0);
        self.outcome()
    }

    /// Waits for the one operation there is.
    fn outcome(&self) -> io::Result<()> {
        loop {
            self.enter(None)?;
            match self.pop() {
                Some(Completion { result: 0.., .. }) => return Ok(()),
                Some(Completion { result, .. }) => {
                    return Err(io::Error::from_raw_os_error(-result));
                }
                None => {} // a signal came
            }
        }
    }

    /// Queues what completes at once. False if the queue is full.
    pub(super) fn push_no_op(&self, tag: u64) -> bool {
        self.push(opcode::Nop::new().build().user_data(tag))
    }

    /// Queues "tell me once when `fd` is ready". False if the queue is full.
    pub(super) fn push_poll(&self, fd: BorrowedFd<'_>, mask: PollFlags, tag: u64) -> bool {
        let poll = opcode::PollAdd::new(Fd(fd.as_raw_fd()), u32::from(mask.bits()));
        self.push(poll.build().user_data(tag))
    }

    /// Queues "forget the poll tagged `target`". That one completes too, if it has not yet. False
    /// if the queue is full.
    pub(super) fn push_remove(&self, target: u64, tag: u64) -> bool {
        self.push(opcode::PollRemove::new(target).build().user_data(tag))
    }

    fn push(&self, entry: squeue::Entry) -> bool {
        // SAFETY: this is the only view of the submission queue (top of this file).
        let mut queue = unsafe { self.io.submission_shared() };
        // SAFETY: the entry is made of numbers; there is nothing that must stay valid.
        unsafe { queue.push(&entry) }.is_ok()
    }

    pub(super) fn is_full(&self) -> bool {
        // SAFETY: this is the only view of the submission queue (top of this file).
        unsafe { self.io.submission_shared() }.is_full()
    }

    /// True if something queued was not submitted.
    pub(super) fn is_pending(&self) -> bool {
        // SAFETY: this is the only view of the submission queue (top of this file).
        !unsafe { self.io.submission_shared() }.is_empty()
    }

    /// True if there are completions for which there was no room: `enter` brings them, once others
    /// were taken.
    pub(super) fn has_overflowed(&self) -> bool {
        // SAFETY: this is the only view of the submission queue (top of this file), which is where
        // the kernel says this.
        unsafe { self.io.submission_shared() }.cq_overflow()
    }

    /// One system call: submits what is queued, lets completions arrive, and waits for one.
    ///
    /// That the time is over, or a signal came, is `Ok`. EBUSY is not: completions must be taken
    /// before more can be submitted.
    pub(super) fn enter(&self, wait: Wait) -> io::Result<()> {
        #[cfg(test)]
        self.calls.set(self.calls.get() + 1);
        let submitter = self.io.submitter();
        let result = match wait {
            NOW => submitter.submit(),
            None => submitter.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout.min(LONGEST));
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match result.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Takes the oldest completion.
    pub(super) fn pop(&self) -> Option<Completion> {
        // SAFETY: this is the only view of the completion queue (top of this file).
        let entry = unsafe { self.io.completion_shared() }.next()?;
        Some(Completion { tag: entry.user_data(), result: entry.result() })
    }
}

fn builder(completions: u32) -> io_uring::Builder<squeue::Entry, cqueue::Entry> {
    let mut builder = IoUring::builder();
    builder.setup_cqsize(completions);
    builder
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring is open until it is dropped, which the borrow rules out.
        unsafe { BorrowedFd::borrow_raw(self.io.as_raw_fd()) }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fd {}", self.io.as_raw_fd())
    }
}

//! Which process a selector was made in. A child of `fork` shares the parent's kernel objects, and
//! its waker's descriptor: using them there would disturb the parent.

#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// How many `fork`s lie between this process and the first that used this crate.
static FORKS: AtomicU32 = AtomicU32::new(0);

static INSTALLED: Mutex<bool> = Mutex::new(false);

type Hook = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    // POSIX; the libc crate has it only since lately, and not for every system.
    fn pthread_atfork(prepare: Hook, parent: Hook, child: Hook) -> libc::c_int;
}

unsafe extern "C" fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The process that was current when this was made.
///
/// Asking costs one load from memory, where `getpid` would be a system call for each descriptor
/// that comes or goes. A child of `fork` is noticed; one of a bare `clone` is not, nor is one of
/// `vfork`, which may do nothing but `exec`.
///
/// ```
/// use loop_selector::Process;
///
/// let process = Process::current()?;
/// assert!(!process.is_forked());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// The current process. The first call asks to be told of forks.
    ///
    /// # Errors
    /// Want of memory, with that first call.
    pub fn current() -> io::Result<Process> {
        let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*installed {
            // SAFETY: `forked` takes nothing, never unwinds, and touches one atomic: a child of a
            // process with threads may do that. It is never unloaded before the process ends, or
            // is removed by the C library together with the object it is in.
            match unsafe { pthread_atfork(None, None, Some(forked)) } {
                0 => *installed = true,
                errno => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
        Ok(Process(FORKS.load(Relaxed)))
    }

    /// True in a child that inherited it.
    #[inline]
    pub fn is_forked(self) -> bool {
        FORKS.load(Relaxed) != self.0
    }

    /// Refuses what would reach the parent (B-SEL-31).
    pub(crate) fn check(self, backend: &'static str) -> io::Result<()> {
        if self.is_forked() { Err(refusal(backend)) } else { Ok(()) }
    }
}

#[cold]
fn refusal(backend: &'static str) -> io::Error {
    io::Error::other(format!("{backend}: this selector belongs to the parent process"))
}

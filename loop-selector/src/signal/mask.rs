//! The signal mask, which a child process inherits.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Runs `f` while the calling thread blocks no signal, and puts its mask back behind it, also if
/// `f` panics. For starting child processes: a child inherits the mask, and one born with `SIGTERM`
/// blocked cannot be stopped politely. What was blocked and pending is delivered before `f` runs.
///
/// ```
/// # use std::process::Command;
/// let status = loop_selector::with_clear_mask(|| Command::new("true").status())??;
/// assert!(status.success());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// That of `pthread_sigmask`; `f` does not run then.
pub fn with_clear_mask<R>(f: impl FnOnce() -> R) -> io::Result<R> {
    let _restore = Restore(clear()?);
    Ok(f())
}

/// Puts a mask back when dropped.
struct Restore(libc::sigset_t);

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: the set came from the kernel. With a valid set and how, the call cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

/// Unblocks everything in this thread, and returns what its mask was.
fn clear() -> io::Result<libc::sigset_t> {
    let (mut none, mut before) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
    // SAFETY: both sets are written to by the calls before they are read; a `sigset_t` is made of
    // integers, so that zeroes are a value of it too.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        match libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

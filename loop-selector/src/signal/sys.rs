//! What only libc has: dispositions, and `errno`.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use super::handler::handler;
use super::number::Signal;

/// Makes `handler` the signal's, and returns what was there before.
pub(super) fn install(signal: Signal) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all fields of a `sigaction` are integers, or optional function pointers: zero is
    // a value of each. `handler` has the signature of a handler without SA_SIGINFO, and is
    // async-signal-safe. `sigemptyset` and `sigaction` write only to what we pass, and zero is
    // a valid `before` should they not.
    unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(signal.as_raw(), &action, before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(before.assume_init())
    }
}

/// The signal's handler, as a number: ours, another's, or what the system does.
fn current(signal: Signal) -> Option<usize> {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: as for `install`; nothing is changed.
    unsafe {
        let asked = libc::sigaction(signal.as_raw(), ptr::null(), current.as_mut_ptr());
        (asked == 0).then(|| current.assume_init().sa_sigaction)
    }
}

fn is_ours(action: usize) -> bool {
    action == handler as *const () as usize
}

/// Whether nobody has a say in the signal but ourselves, who found it so if `before` is given.
pub(super) fn is_default(signal: Signal, before: Option<&libc::sigaction>) -> bool {
    let Some(now) = current(signal) else { return false };
    match before {
        Some(before) => is_ours(now) && before.sa_sigaction == libc::SIG_DFL,
        None => now == libc::SIG_DFL,
    }
}

/// Puts `before` back if `handler` is still the signal's.
pub(super) fn restore(signal: Signal, before: &libc::sigaction) {
    if current(signal).is_some_and(is_ours) {
        // SAFETY: as for `install`; `before` was filled in by the kernel there. It may name a
        // handler that was installed before ours: putting it back is what its owner expects.
        unsafe { libc::sigaction(signal.as_raw(), before, ptr::null_mut()) };
    }
}

/// Sends a signal to the calling thread. If it is not blocked, its handler has run when this
/// returns; without a handler it does what it does, which may end the process.
///
/// # Errors
/// That of `raise`.
pub fn raise(signal: Signal) -> io::Result<()> {
    // SAFETY: `raise` takes no pointers, and the number is a signal's.
    match unsafe { libc::raise(signal.as_raw()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn errno_location() -> *mut libc::c_int {
    // SAFETY: each of these takes nothing and returns the address of the thread's own errno.
    unsafe {
        #[cfg(any(target_os = "linux", target_os = "l4re", target_os = "hurd"))]
        return libc::__errno_location();
        #[cfg(any(target_vendor = "apple", target_os = "freebsd", target_os = "dragonfly"))]
        return libc::__error();
        #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
        return libc::__errno();
        #[cfg(any(target_os = "solaris", target_os = "illumos"))]
        return libc::___errno();
    }
}

pub(super) fn errno() -> libc::c_int {
    // SAFETY: the address is valid for the life of the thread, and nobody else's.
    unsafe { *errno_location() }
}

pub(super) fn set_errno(errno: libc::c_int) {
    // SAFETY: as above.
    unsafe { *errno_location() = errno }
}

//! `epoll_pwait2`: a wait as long as was asked for, to the nanosecond (Linux 5.11). rustix either
//! takes it for granted or leaves it alone; here it is tried, and missed if it is missing.

#![allow(unsafe_code)]

use std::mem::{align_of, size_of};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::event::Timespec;
use rustix::event::epoll::Event;
use rustix::io::Errno;

/// `struct __kernel_timespec` of linux/time_types.h: 64 bits each on every architecture.
#[repr(C)]
struct KernelTimespec {
    sec: i64,
    nsec: i64,
}

// The kernel writes `struct epoll_event`; rustix's is meant to be the same.
const _: () = assert!(
    size_of::<Event>() == size_of::<libc::epoll_event>()
        && align_of::<Event>() == align_of::<libc::epoll_event>()
);

/// Adds what is ready to `buffer`, as much as there is room for.
pub(super) fn epoll_pwait2(
    epoll: &OwnedFd,
    buffer: &mut Vec<Event>,
    timeout: &Timespec,
) -> Result<(), Errno> {
    let timeout = KernelTimespec { sec: timeout.tv_sec as _, nsec: timeout.tv_nsec as _ };
    let (length, room) = (buffer.len(), buffer.spare_capacity_mut());
    // The kernel refuses more than fit into 2 GiB (EP_MAX_EVENTS), which nobody will register.
    let most = room.len().min(libc::c_int::MAX as usize / size_of::<Event>());
    // SAFETY: the descriptor is open. The kernel writes at most `most` events to `room`, which has
    // space for them, and reads `timeout`, which has the layout it expects and outlives the call.
    // Without a signal mask its size is not looked at.
    let found = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            room.as_mut_ptr(),
            most as libc::c_int,
            &raw const timeout,
            ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    match usize::try_from(found) {
        Ok(found) => {
            // SAFETY: the kernel has filled in the first `found` events, at most `most`.
            unsafe { buffer.set_len(length + found) };
            Ok(())
        }
        // The call has left its reason in errno, which is where `last_os_error` looks.
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

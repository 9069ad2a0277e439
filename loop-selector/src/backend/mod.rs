//! The backends: one way to ask the kernel each, and nothing but that.

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
pub(crate) mod devpoll;
#[cfg(any(test, target_os = "illumos", target_os = "solaris"))]
mod devpoll_event;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
pub(crate) mod epoll;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll_wait;
mod kernel;
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd"
))]
pub(crate) mod kqueue;
#[cfg(any(
    test,
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd",
))]
mod kqueue_event;
#[cfg(all(feature = "mio", target_pointer_width = "64"))]
pub(crate) mod mio;
pub(crate) mod poll;
pub(crate) mod select;
#[cfg(all(feature = "uring", target_os = "linux"))]
pub(crate) mod uring;

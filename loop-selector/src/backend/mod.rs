//! The backends: one way to ask the kernel each, and nothing but that.

#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
pub(crate) mod epoll;
pub(crate) mod poll;

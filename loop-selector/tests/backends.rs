//! Every backend of this crate against the suite, but for `select`, which has a file of its own. The
//! test's module is the backend's name.

use loop_selector::{PollSelector, Selector, Waker, by_name, conformance_tests};

#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
conformance_tests!(epoll, || by_name("epoll"));
conformance_tests!(poll, || by_name("poll"));

conformance_tests!(poll_with_socketpair, || {
    Ok(Box::new(PollSelector::with_waker(Waker::socketpair()?)?) as Box<dyn Selector>)
});
#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
conformance_tests!(epoll_with_pipe, || {
    use loop_selector::EpollSelector;
    Ok(Box::new(EpollSelector::with_waker(Waker::pipe()?)?) as Box<dyn Selector>)
});
#[cfg(all(feature = "mio", target_pointer_width = "64"))]
conformance_tests!(mio, || by_name("mio"));

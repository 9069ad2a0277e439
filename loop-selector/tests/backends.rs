//! Every backend of this crate against the suite.

use loop_selector::{by_name, conformance_tests};

#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
conformance_tests!(epoll, || by_name("epoll"));
conformance_tests!(poll, || by_name("poll"));

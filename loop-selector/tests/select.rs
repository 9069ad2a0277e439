//! `select` against the suite, in a process of its own: it takes no descriptor above 1023, so nobody
//! else may use them up meanwhile.

use loop_selector::{SelectSelector, Selector, Waker, by_name, conformance_tests};

conformance_tests!(select, || by_name("select"));

conformance_tests!(select_with_pipe, || {
    Ok(Box::new(SelectSelector::with_waker(Waker::pipe()?)?) as Box<dyn Selector>)
});

//! The suite that every backend passes, and that a selector of your own can be held to with a line:
//!
//! ```
//! # use loop_selector::{PollSelector, Selector};
//! loop_selector::conformance_tests!(poll, || Ok(Box::new(PollSelector::new()?) as Box<dyn Selector>));
//! ```
//!
//! makes a module `poll` with a `#[test]` for each behaviour, named by its id in the contract.
//! Each is also a function here, which takes the constructor and panics if the selector is wrong.
//!
//! Backends may differ in what they refuse (B-SEL-05, B-SEL-06): the suite accepts both answers,
//! but holds the selector to the one it gave. One that refuses high numbers, as a selector over
//! `select` must, wants a test binary of its own: others open more descriptors than it can take.

mod fixture;
mod readiness;
mod registration;
mod stale;
mod timing;
mod wake;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

pub use readiness::*;
pub use registration::*;
pub use stale::*;
pub use timing::*;
pub use wake::*;

use crate::default::{available, by_name};
use crate::selector::Selector;

/// Makes a fresh selector.
pub type Make<'a> = &'a dyn Fn() -> io::Result<Box<dyn Selector>>;

/// How long one behaviour may take before the process is aborted: nearly all of them fail by
/// waiting for ever, in a system call that nothing can end.
const WATCHDOG: Duration = Duration::from_secs(60);

/// Runs one behaviour under the watchdog. For [`conformance_tests!`](crate::conformance_tests).
///
/// # Panics
/// If the behaviour does.
pub fn run(name: &'static str, behaviour: fn(Make<'_>), make: Make<'_>) {
    watched(name, || behaviour(make));
}

/// Runs a test, and aborts the process with `name` on stderr if that takes more than a minute.
///
/// # Panics
/// If the test does.
pub fn watched(name: &'static str, test: impl FnOnce()) {
    let (done, watch) = channel::<()>();
    let dog = thread::spawn(move || {
        if watch.recv_timeout(WATCHDOG) == Err(RecvTimeoutError::Timeout) {
            // Not `eprintln!`: what the test harness captures is lost in an abort.
            let _ = writeln!(io::stderr(), "{name}: still running after {WATCHDOG:?}");
            std::process::abort();
        }
    });
    let result = catch_unwind(AssertUnwindSafe(test));
    drop(done);
    dog.join().expect("the watchdog does not panic");
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// The names of [`available`], but for `uring` where the system refuses rings: that is printed, with
/// the reason. For tests that go over all backends; every other one has to work.
pub fn usable() -> Vec<&'static str> {
    let refused = |name: &'static str| {
        if name != "uring" {
            return false;
        }
        // In a thread of its own: the kernel interrupts a thread to tidy up behind its ring.
        let error = thread::spawn(move || by_name(name).err()).join().expect("it does not panic");
        if let Some(error) = &error {
            println!("{name}: skipped: {error}");
        }
        error.is_some()
    };
    available().iter().copied().filter(|name| !refused(name)).collect()
}

/// Hands the list of all behaviours to a macro: the one place where they are written down.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_all_behaviours {
    ($then:path, $($args:tt)*) => {
        $then! { $($args)*;
            b_sel_01_register_keeps_number_interest_and_owner
            b_sel_02_negative_number_is_refused
            b_sel_03_second_registration_is_refused
            b_sel_04_failed_registration_is_rolled_back
            b_sel_05_regular_file
            s11_directory_and_dev_null
            b_sel_06_closed_descriptor
            b_sel_07_deregister_returns_the_owner_once
            b_sel_08_deregister_after_close
            b_sel_09_deregister_after_close_and_reuse
            b_sel_10_modify_changes_the_interest
            modify_to_none_is_silent_and_reversible
            b_sel_11_unchanged_interest_makes_no_call
            b_sel_12_failed_modify_leaves_it_silent
            b_sel_13_reused_number_is_watched_after_rearm
            b_sel_26_registry_is_current
            b_sel_27_drop_releases_everything
            b_sel_31_close_on_exec
            b_sel_35_tokens_are_fresh
            b_sel_18_readiness_is_masked
            b_sel_19_hang_up_wakes_every_registered_side
            b_sel_19_half_closed_is_readable
            b_sel_20_refused_and_unconnected_sockets
            b_sel_21_both_directions_are_one_event
            b_sel_22_and_32_level_triggered
            b_sel_22_each_message_reaches_its_reader_once
            b_sel_23_one_batch_holds_all
            b_sel_28_and_29_numbers_above_fd_setsize
            b_sel_29_ten_thousand_descriptors
            s10_stale_token_in_the_same_batch
            b_sel_24_removed_descriptors_are_not_reported
            b_sel_25_closed_while_watched_does_not_spin
            b_sel_25_orphan_does_not_spin
            s15_hang_up_of_a_silent_descriptor_does_not_spin
            select_empties_the_buffer
            b_sel_27_descriptor_is_readable_when_something_is_ready
            b_sel_14_zero_and_no_timeout
            b_sel_15_timeouts_are_rounded_up
            b_sel_16_empty_selector_sleeps
            s03_sub_millisecond_waits_do_not_spin
            s04_huge_timeouts_are_clamped
            b_sel_17_interrupted_wait_returns_no_error
            s14_signals_do_not_move_a_deadline
            b_thr_01_wake_ends_an_endless_wait
            b_thr_03_wake_before_the_wait_is_kept
            b_thr_03_zero_timeout_consumes_a_wake
            b_thr_05_many_wakes_write_once
            b_thr_05_wait_unparks_and_drains
            s13_wakes_from_eight_threads
            s13_storm_of_signals_wakes_and_messages
            b_thr_07_wake_after_drop_is_harmless
            wake_hides_no_event
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __run_behaviours {
    ($make:expr; $($behaviour:ident)*) => {
        $( $crate::conformance::run(stringify!($behaviour), $crate::conformance::$behaviour, $make); )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __test_behaviours {
    ($name:ident, $make:expr; $($behaviour:ident)*) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $behaviour() {
                    let run = $crate::conformance::run;
                    run(stringify!($behaviour), $crate::conformance::$behaviour, &$make);
                }
            )*
        }
    };
}

/// `conformance_tests!(name, make)` makes a module `name` with a `#[test]` for each behaviour.
/// `make` is a `Fn() -> io::Result<Box<dyn Selector>>`.
#[macro_export]
macro_rules! conformance_tests {
    ($name:ident, $make:expr) => {
        $crate::__for_all_behaviours! { $crate::__test_behaviours, $name, $make }
    };
}

/// Every behaviour, one after the other.
///
/// # Panics
/// At the first one that the selector does not have.
pub fn run_all(make: impl Fn() -> io::Result<Box<dyn Selector>>) {
    crate::__for_all_behaviours! { crate::__run_behaviours, &make }
}

//! A selector written outside this crate: a recorder around another one, with a fault if wanted.
//! Without a fault it passes the suite; with one it does not, so the suite can fail.

use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use loop_selector::conformance::{self, Make};
use loop_selector::{
    AsSource, Event, Events, Interest, PollSelector, Readiness, RegisterError, Selector, Token,
    conformance_tests, forward_selector,
};

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    RoundsDown,
    OneEventAtMost,
    KeepsOldEvents,
    SplitsDirections,
    ReportsEverything,
    RefusesToSleep,
    KeepsOwners,
    FullAtFiveThousand,
}

struct Recorder {
    inner: PollSelector,
    fault: Fault,
    kept: Vec<Rc<dyn AsSource>>,
}

impl Recorder {
    fn boxed(fault: Fault) -> io::Result<Box<dyn Selector>> {
        Ok(Box::new(Recorder { inner: PollSelector::new()?, fault, kept: Vec::new() }))
    }
}

impl Selector for Recorder {
    fn register(
        &mut self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        if self.fault == Fault::KeepsOwners {
            self.kept.push(owner.clone());
        }
        self.inner.register(owner, interest)
    }

    fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = match self.fault {
            Fault::RoundsDown => timeout.map(|t| Duration::from_millis(t.as_millis() as u64)),
            Fault::RefusesToSleep => Some(Duration::ZERO),
            _ => timeout,
        };
        let mut found = Events::new();
        self.inner.select(&mut found, timeout)?;
        if self.fault != Fault::KeepsOldEvents {
            events.clear();
        }
        for event in &found {
            let &Event::Ready { token, readiness } = event else { continue };
            match self.fault {
                Fault::OneEventAtMost if !events.is_empty() => {}
                Fault::FullAtFiveThousand if events.len() == 5_000 => {}
                Fault::SplitsDirections if readiness.is_readable() && readiness.is_writable() => {
                    events.push(Event::Ready { token, readiness: Readiness::READABLE });
                    events.push(Event::Ready { token, readiness: Readiness::WRITABLE });
                }
                Fault::ReportsEverything => {
                    let readiness = Readiness::READABLE | Readiness::WRITABLE;
                    events.push(Event::Ready { token, readiness });
                }
                _ => events.push(*event),
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "recorder"
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    forward_selector!(inner: modify rearm deregister registry waker);
}

conformance_tests!(recorder, || Recorder::boxed(Fault::None));

#[test]
fn run_all_runs_all() {
    conformance::run_all(|| Recorder::boxed(Fault::None));
}

#[test]
fn each_fault_is_found() {
    let table: [(Fault, fn(Make<'_>)); 9] = [
        (Fault::RoundsDown, conformance::b_sel_15_timeouts_are_rounded_up),
        (Fault::RoundsDown, conformance::s03_sub_millisecond_waits_do_not_spin),
        (Fault::OneEventAtMost, conformance::b_sel_23_one_batch_holds_all),
        (Fault::FullAtFiveThousand, conformance::b_sel_29_ten_thousand_descriptors),
        (Fault::KeepsOldEvents, conformance::select_empties_the_buffer),
        (Fault::SplitsDirections, conformance::b_sel_21_both_directions_are_one_event),
        (Fault::ReportsEverything, conformance::b_sel_18_readiness_is_masked),
        (Fault::RefusesToSleep, conformance::b_sel_16_empty_selector_sleeps),
        (Fault::KeepsOwners, conformance::b_sel_07_deregister_returns_the_owner_once),
    ];
    for (fault, behaviour) in table {
        let result = catch_unwind(AssertUnwindSafe(|| behaviour(&|| Recorder::boxed(fault))));
        assert!(result.is_err(), "fault {} was not found", fault as u8);
    }
}

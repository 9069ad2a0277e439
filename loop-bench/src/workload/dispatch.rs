//! The price of choices that this project made: each beside what it could have chosen, with the same promises.

use std::hint::black_box;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use loop_selector::{Event, Events, Interest, Selector};

use super::handles::{self, BATCH};
use super::timer_loads::{cancel99, insert_pop};
use super::timers::{Work, named};
use crate::rival::eager::Eager;
use crate::rival::handle_queue::{Fresh, Pooled};
use crate::rival::instant_selector::Instant;
use crate::rival::layouts::Binary;
use crate::rival::lazy::Lazy;
use crate::rival::timer_heap::Heap;
use crate::rival::two_boxes::TwoBoxes;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

#[cfg(any(target_os = "linux", target_os = "android"))]
use loop_selector::EpollSelector as System;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
use loop_selector::PollSelector as System;

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let mut contests = vec![
        select("dispatch/select", 1, plan.size(20_000, 100_000), || Ok(System::new()?)),
        select("dispatch/select", 0, plan.size(500_000, 2_000_000), || Ok(Instant::new()?)),
        callbacks(plan.size(100, 1_000)),
        cancelled_callbacks(plan.size(100, 1_000)),
    ];
    for &n in plan.size(&[1_000, 100_000][..], &[1_000, 100_000, 1_000_000]) {
        contests.extend([timers(n, 99), timers(n, 0)]);
    }
    contests
}

/// A selector behind a pointer, as a loop has it that lets its user choose at run time, against one that the compiler
/// knows. `calls` a wait: with none, nothing hides the difference.
fn select<S: Selector + 'static>(
    workload: &'static str,
    calls: u64,
    n: u64,
    make: fn() -> Result<S, Wrong>,
) -> Contest {
    let boxed = move |_seed| {
        // The compiler must not see through it either.
        let selector: Box<dyn Selector> = black_box(Box::new(make()?));
        waits(selector, n)
    };
    let subjects = vec![
        Subject::new("loop-selector/dyn", boxed),
        Subject::new("static", move |_seed| waits(make()?, n)),
    ];
    Contest::new(workload, &[("calls", calls)], subjects)
}

/// `n` waits, each of which finds one socket that can be read.
fn waits<S: Selector>(mut selector: S, n: u64) -> Result<Lap, Wrong> {
    let (socket, mut peer) = UnixStream::pair()?;
    peer.write_all(b"!")?;
    let token = selector.register(Rc::new(socket), Interest::READ).map_err(std::io::Error::from)?;
    let mut events = Events::new();
    let (lap, found) = Lap::time(n, || -> std::io::Result<u64> {
        let mut found = 0;
        for _ in 0..n {
            selector.select(&mut events, Some(Duration::ZERO))?;
            let of_ours =
                |event: &&Event| matches!(event, Event::Ready { token: of, .. } if *of == token);
            found += events.iter().filter(of_ours).count() as u64;
        }
        Ok(found)
    });
    Wrong::unless_equal("events", found?, n)?;
    Ok(lap)
}

/// A callback in one allocation, with flags, context and closure together, against one in two.
fn callbacks(batches: u64) -> Contest {
    Contest::new(
        "dispatch/callback",
        &[("batch", BATCH), ("cancelled", 0)],
        vec![
            Subject::new("loop-handle/fresh", move |_seed| handles::once::<Fresh>(batches)),
            Subject::new("loop-handle", move |_seed| handles::once::<Pooled>(batches)),
            Subject::new("two", move |_seed| handles::once::<TwoBoxes>(batches)),
        ],
    )
}

/// The same where the handles are kept, and half of them cancelled.
fn cancelled_callbacks(batches: u64) -> Contest {
    Contest::new(
        "dispatch/callback",
        &[("batch", BATCH), ("cancelled", 50)],
        vec![
            Subject::new("loop-handle/fresh", move |_seed| handles::cancel::<Fresh>(batches)),
            Subject::new("loop-handle", move |_seed| handles::cancel::<Pooled>(batches)),
            Subject::new("two", move |_seed| handles::cancel::<TwoBoxes>(batches)),
        ],
    )
}

/// Timers that are struck out when they are cancelled and removed later, many at once, against timers that are
/// removed at once. `lazy` and `eager` have the same heap; `loop-timer` is lazy and has another.
fn timers(n: u64, cancelled: u64) -> Contest {
    let works: [(&str, Work); 3] = if cancelled == 0 {
        [
            ("loop-timer", insert_pop::<Heap>),
            ("lazy", insert_pop::<Lazy<Binary>>),
            ("eager", insert_pop::<Eager>),
        ]
    } else {
        [
            ("loop-timer", cancel99::<Heap>),
            ("lazy", cancel99::<Lazy<Binary>>),
            ("eager", cancel99::<Eager>),
        ]
    };
    let subjects = works.into_iter().map(|(name, work)| named(name, n, work)).collect();
    Contest::new("dispatch/timer", &[("n", n), ("cancelled", cancelled)], subjects)
}

#[cfg(test)]
mod tests {
    use std::io;

    use loop_selector::forward_selector;

    use super::*;

    #[test]
    fn every_subject_gives_the_right_answer() {
        for contest in contests(&Plan::quick(1)) {
            let (workload, params) = (contest.workload(), contest.params().to_vec());
            let ops = |name| params.iter().find(|(known, _)| *known == name).map(|(_, n)| *n);
            let expected = match (ops("calls"), ops("batch")) {
                (Some(0), _) => 500_000,
                (Some(_), _) => 20_000,
                _ => 100_000,
            };
            for mut subject in contest.into_subjects() {
                let lap = subject.round(1);
                let name = subject.name();
                let lap = lap.unwrap_or_else(|wrong| panic!("{workload} {name}: {wrong}"));
                assert_eq!(lap.ops, expected, "{workload} {params:?} {name}");
            }
        }
    }

    /// Misses an event after some time.
    struct Forgetful(Instant, u32);

    impl Selector for Forgetful {
        fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
            self.0.select(events, timeout)?;
            self.1 += 1;
            if self.1 == 150 {
                events.clear();
            }
            Ok(())
        }

        fn name(&self) -> &'static str {
            "forgetful"
        }

        fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
            None
        }

        forward_selector!(0: register modify rearm deregister registry waker);
    }

    #[test]
    fn a_missed_event_is_a_wrong_answer() {
        let forgetful = || Forgetful(Instant::new().unwrap(), 0);
        assert!(waits(forgetful(), 100).is_ok());
        let wrong = waits(forgetful(), 200).unwrap_err();
        assert_eq!(wrong.0, "events: found 199, expected 200");
    }
}

//! Messages from another thread, to a loop that sleeps and to a loop that is busy.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use super::ping_pong;
use crate::bar::Bar;
use crate::pin::pin_peer;
use crate::rival::hub::{Hub, Post, Tally};
use crate::rival::loop_core::{self, Calls};
use crate::rival::loop_selector;
use crate::rival::tokio::{Channel, Closures, Spawns};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

pub(super) const BARS: &[Bar] = &[
    Bar {
        workload: "wake/calls",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["tokio Handle::spawn"],
        at_most: 0.25,
    },
    Bar {
        workload: "wake/calls",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["tokio mpsc of closures"],
        at_most: 1.1,
    },
    ping_pong::REQUESTS,
    ping_pong::PROCESSOR,
];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let contest = |name, busy, n| {
        let ours = loop_selector::usable().map(|selector| {
            let subject = format!("loop-core/{selector}");
            Subject::new(subject, move |_seed| round(&Calls(selector), busy, n))
        });
        let tokio = Subject::new("tokio", move |_seed| round(&Channel, busy, n));
        Contest::new(name, &[("n", n)], ours.chain([tokio]).collect())
    };
    let mut contests = vec![
        contest("wake/parked", false, plan.size(5_000, 20_000)),
        contest("wake/busy", true, plan.size(100_000, 500_000)),
        calls(plan.size(100_000, 500_000)),
    ];
    contests.extend(ping_pong::contests(plan));
    contests
}

/// As `busy`, where each message is something to do.
fn calls(n: u64) -> Contest {
    let subjects = vec![
        Subject::new(loop_core::name(), move |_| round(&Calls(loop_core::best()), true, n)),
        Subject::new("tokio Handle::spawn", move |_| round(&Spawns, true, n)),
        Subject::new("tokio mpsc of closures", move |_| round(&Closures, true, n)),
    ];
    Contest::new("wake/calls", &[("n", n)], subjects)
}

/// Parked: one message at a time, each waited for, so that the loop has nothing to do but sleep:
/// the time of a round trip. Busy: all messages at once, while the loop also runs a callback or
/// task that never ends: the time between two messages.
fn round<H: Hub>(hub: &H, busy: bool, n: u64) -> Result<Lap, Wrong> {
    let tally = Tally::new(n);
    let (go, started) = mpsc::channel::<Post>();
    let sender = thread::spawn({
        let tally = Arc::clone(&tally);
        move || {
            pin_peer();
            let Ok(post) = started.recv() else { return None };
            if !busy {
                tally.watch();
            }
            let start = Instant::now();
            for value in 0..n {
                post(value);
                if !busy {
                    tally.wait_for(value + 1);
                }
            }
            Some(start)
        }
    });
    let ran = hub.run(busy, Arc::clone(&tally), move |post| _ = go.send(post));
    // A loop that failed never takes the messages that a sender may be waiting for: leave it.
    ran?;
    let finished = tally.finished()?;
    let start = sender.join().ok().flatten().ok_or(Wrong("the sender failed".into()))?;
    Ok(Lap { elapsed: finished.duration_since(start), ops: n })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes messages on the loop's thread from a plain channel, with a fault.
    struct Faulty<const LOSES: bool>;

    impl<const LOSES: bool> Hub for Faulty<LOSES> {
        fn run(
            &self,
            _busy: bool,
            tally: Arc<Tally>,
            start: impl FnOnce(Post),
        ) -> Result<(), Wrong> {
            let (sender, receiver) = mpsc::channel();
            start(Box::new(move |value| {
                if !(LOSES && value == 3) {
                    _ = sender.send(value);
                }
            }));
            while let Ok(value) = receiver.recv() {
                tally.take(value);
            }
            Ok(())
        }
    }

    #[test]
    fn every_subject_takes_all_messages_in_order() {
        for busy in [false, true] {
            for selector in loop_selector::usable() {
                assert_eq!(round(&Calls(selector), busy, 1_000).unwrap().ops, 1_000, "{selector}");
            }
            assert_eq!(round(&Channel, busy, 1_000).unwrap().ops, 1_000, "tokio");
            assert_eq!(round(&Spawns, busy, 1_000).unwrap().ops, 1_000, "tokio's tasks");
            assert_eq!(round(&Closures, busy, 1_000).unwrap().ops, 1_000, "tokio's closures");
            assert_eq!(round(&Faulty::<false>, busy, 1_000).unwrap().ops, 1_000);
        }
    }

    #[test]
    fn a_lost_message_is_noticed() {
        assert!(round(&Faulty::<true>, true, 1_000).is_err());
    }
}

//! Looking before waiting, waiting before looking, and passing over the selector.

mod common;

use std::cell::Cell;
use std::io::{Read, Write};
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use common::{Call, LogSelector, Sleeper, pair, watchdog};
use loop_core::{EventLoop, sleep, yield_now};
use loop_selector::available;

const MS: Duration = Duration::from_millis(1);

fn is_zero(call: &Call) -> bool {
    matches!(call, Call::Select { timeout: Some(Duration::ZERO), .. })
}

/// When the peer answers.
enum Answer {
    WhileItLooks,
    WhileItWaits,
}

/// Answers one byte, and returns the selector's calls meanwhile.
fn calls_of_one_answer(name: &str, busy: Duration, answer: Answer) -> Vec<Call> {
    let (selector, log) = LogSelector::new(name);
    let mut event_loop = EventLoop::builder().selector(selector).busy_poll(busy).build().unwrap();
    let (ours, mut theirs) = pair();
    let (lp, source) = (event_loop.loop_ref(), ours.clone());
    event_loop
        .add_reader(&ours, move || {
            (&*source).read_exact(&mut [0]).unwrap();
            lp.stop();
        })
        .unwrap();
    log.take();
    let (sleeper, looks) = (Sleeper::this_thread(), log.waits.clone());
    let peer = thread::spawn(move || {
        match answer {
            Answer::WhileItLooks => {
                while looks.load(Ordering::Relaxed) < 3 {
                    thread::yield_now();
                }
            }
            Answer::WhileItWaits => sleeper.wait(),
        }
        theirs.write_all(b"x").unwrap();
        theirs
    });
    event_loop.run_forever().unwrap();
    drop(peer.join().unwrap());
    let mut calls = log.take();
    calls.retain(|call| matches!(call, Call::Select { .. }));
    calls
}

#[test]
fn a_busy_loop_asks_without_waiting_and_then_waits() {
    let _watchdog = watchdog();
    for name in available() {
        let calls = calls_of_one_answer(name, Duration::ZERO, Answer::WhileItWaits);
        assert!(!calls.iter().any(is_zero), "{name}: off unless it is asked for: {calls:?}");
        // The answer comes while it looks.
        let calls = calls_of_one_answer(name, Duration::from_secs(10), Answer::WhileItLooks);
        assert!(calls.iter().all(is_zero) && calls.len() > 1, "{name}: {}", calls.len());
        // The answer comes when it has given up.
        let calls = calls_of_one_answer(name, MS, Answer::WhileItWaits);
        let looks = calls.iter().take_while(|call| is_zero(call)).count();
        assert!(looks >= 1 && looks < calls.len(), "{name}: {looks} of {}", calls.len());
    }
}

#[test]
fn nothing_that_happens_while_it_looks_is_lost() {
    let _watchdog = watchdog();
    for name in available() {
        for busy in [Duration::from_micros(20), Duration::from_secs(10)] {
            let (selector, _log) = LogSelector::new(name);
            let builder =
                EventLoop::builder().selector(selector).busy_poll(busy).coalesce(busy.min(MS));
            let mut event_loop = builder.build().unwrap();
            let (ours, _theirs) = pair();
            event_loop.add_reader(&ours, || ()).unwrap();
            let lp = event_loop.loop_ref();
            event_loop
                .run_until_complete(async move {
                    for _ in 0..50 {
                        lp.run_blocking(|| ()).await.unwrap();
                    }
                    sleep(2 * MS).await;
                    let pause = loop_selector::Signal::USR2;
                    let seen = Rc::new(Cell::new(false));
                    let flag = seen.clone();
                    lp.add_signal_handler(pause, move || flag.set(true)).unwrap();
                    lp.run_blocking(move || loop_selector::raise(pause).unwrap()).await.unwrap();
                    while !seen.get() {
                        yield_now().await;
                    }
                })
                .unwrap();
        }
    }
}

#[test]
fn a_coalescing_loop_lets_time_pass_after_a_wait_that_found_several() {
    let _watchdog = watchdog();
    let pause = 20 * MS;
    for name in available() {
        let (selector, _log) = LogSelector::new(name);
        let builder = EventLoop::builder().selector(selector).coalesce(pause);
        let mut event_loop = builder.build().unwrap();
        let (next, to_next) = pair();
        let (to_next, begun) = (Rc::new(to_next), Rc::new(Cell::new(None)));
        // Two are ready in the first wait, and make the next one ready.
        let mut theirs = Vec::new();
        for (ours, mut peer) in [pair(), pair()] {
            peer.write_all(b"x").unwrap();
            theirs.push(peer);
            let (source, to_next, begun) = (ours.clone(), to_next.clone(), begun.clone());
            let lp = event_loop.loop_ref();
            let reader = move || {
                (&*source).read_exact(&mut [0]).unwrap();
                assert_eq!(lp.ready_descriptors(), 2);
                (&*to_next).write_all(b"x").unwrap();
                begun.set(Some(Instant::now()));
            };
            event_loop.add_reader(&ours, reader).unwrap();
        }
        let lp = event_loop.loop_ref();
        let (seen, told) = (Rc::new(Cell::new(Duration::ZERO)), begun.clone());
        let after = seen.clone();
        let reader = move || {
            after.set(told.get().map_or(Duration::ZERO, |begun: Instant| begun.elapsed()));
            lp.stop();
        };
        event_loop.add_reader(&next, reader).unwrap();
        event_loop.run_forever().unwrap();
        assert!(seen.get() >= pause, "{name}: seen after {:?}", seen.get());
    }
}

#[test]
fn two_clients_that_wait_for_a_coalescing_loop_soon_have_no_pause() {
    let _watchdog = watchdog();
    const ROUNDS: u32 = 50;
    let pause = 20 * MS;
    let mut event_loop = EventLoop::builder().coalesce(pause).build().unwrap();
    let (pairs, asked) = ([pair(), pair()], Rc::new(Cell::new(0)));
    let asks: Vec<_> = pairs.iter().map(|(_, peer)| peer.try_clone().unwrap()).collect();
    let asks = Rc::new(asks);
    for (ours, _) in &pairs {
        let (source, asks, asked) = (ours.clone(), asks.clone(), asked.clone());
        let lp = event_loop.loop_ref();
        let reader = move || {
            (&*source).read_exact(&mut [0]).unwrap();
            asked.set(asked.get() + 1);
            if asked.get() == 2 * ROUNDS {
                lp.stop();
            } else if asked.get() % 2 == 0 {
                // Both are answered, and ask again at once.
                asks.iter().for_each(|mut peer| peer.write_all(b"x").unwrap());
            }
        };
        event_loop.add_reader(ours, reader).unwrap();
    }
    asks.iter().for_each(|mut peer| peer.write_all(b"x").unwrap());
    let begun = Instant::now();
    event_loop.run_forever().unwrap();
    assert!(begun.elapsed() < pause * ROUNDS / 2, "{:?}", begun.elapsed());
}

#[test]
fn b_loop_07_a_loop_may_be_told_to_ask_in_every_nth_iteration_only() {
    let _watchdog = watchdog();
    for (every, limit) in [(1, 100), (10, 11)] {
        let (selector, log) = LogSelector::new("poll");
        let mut event_loop = EventLoop::builder()
            .selector(selector)
            .poll_every(NonZeroU32::new(every).unwrap())
            .build()
            .unwrap();
        let (ours, mut theirs) = pair();
        let seen = Rc::new(Cell::new(0));
        let count = seen.clone();
        let source = ours.clone();
        event_loop
            .add_reader(&ours, move || {
                (&*source).read_exact(&mut [0]).unwrap();
                count.set(count.get() + 1);
            })
            .unwrap();
        theirs.write_all(b"x").unwrap();
        event_loop
            .run_until_complete(async {
                for _ in 0..99 {
                    yield_now().await;
                }
            })
            .unwrap();
        let waits = log.take_waits().len();
        assert!(waits <= limit && waits >= 100 / every as usize, "{every}: {waits}");
        assert_eq!(seen.get(), 1, "I/O is not starved");
        // With nothing ready it waits as ever, unless the time is over before it comes to that.
        while log.take_waits().iter().all(|(timeout, _)| timeout.is_zero()) {
            event_loop.run_until_complete(sleep(MS)).unwrap();
        }
    }
}

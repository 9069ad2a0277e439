//! Random nested programs of catch points, scopes and combinators, with requests at random times,
//! against a model that was written from the contract (0.3) and shares no code with the crate: no
//! nodes, no flags, no wakers, but one recursive walk over the program for each rule. What happens,
//! in which order, and how the task ends must be the same.
//!
//! `LOOP_FUZZ_PROGRAMS=1000000` runs more of them than `cargo test` does, `LOOP_FUZZ_SEED` one.

mod common;
#[path = "cancel_fuzz/model.rs"]
mod model;
#[path = "cancel_fuzz/program.rs"]
mod program;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{turn, virtual_loop};
use loop_core::{EventLoop, TaskError, VirtualClock};
use model::Model;
use program::{Program, Random, build};

/// What a branch can tell of: program points are numbered.
pub type Log = Rc<RefCell<Vec<String>>>;

const MS: Duration = Duration::from_millis(1);

/// Turns a millisecond: a request moves outward by one level a turn.
const TURNS: usize = 24;

/// Runs one program both ways; the number of lines that they agreed on.
fn compare(event_loop: &mut EventLoop, clock: &VirtualClock, seed: u64) -> usize {
    let mut random = Random(seed);
    let program = Program::random(&mut random);
    let mut cancels: Vec<u64> = (0..random.below(5)).map(|_| random.below(20)).collect();
    cancels.sort_unstable();
    let log = Log::default();
    let task = event_loop.spawn(build(&program, &log));
    let mut model = Model::new(&program);
    for now in 0..200 {
        // In the end it is cancelled until it gives in: it can swallow as often as it has points.
        let asked = cancels.iter().filter(|at| **at == now).count();
        let asked = if now >= 24 && now % 8 == 0 { asked + 1 } else { asked };
        for number in 0..asked {
            let reason = format!("{now}.{number}");
            assert_eq!(task.cancel_with(&reason), model.cancel(&reason), "seed {seed}: cancel");
        }
        for _ in 0..TURNS {
            turn(event_loop);
        }
        model.run(now);
        let (ours, theirs) = (log.borrow(), &model.log);
        assert_eq!(*ours, *theirs, "seed {seed} at {now}: {program:#?}, cancelled at {cancels:?}");
        assert_eq!(task.is_done(), model.end.is_some(), "seed {seed} at {now}: {program:#?}");
        if task.is_done() {
            break;
        }
        drop(ours);
        clock.advance(MS);
    }
    let end = match task.take_result() {
        None => panic!("seed {seed} hangs: {program:#?}, cancelled at {cancels:?}"),
        Some(Ok(())) => None,
        Some(Err(TaskError::Cancelled { reason })) => Some(reason.map(|reason| reason.to_string())),
        Some(Err(other)) => panic!("seed {seed}: {other}"),
    };
    assert_eq!(Some(end), model.end, "seed {seed}: {program:#?}, cancelled at {cancels:?}");
    log.borrow().len()
}

#[test]
fn random_programs_do_what_the_model_says() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (mut event_loop, clock) = virtual_loop();
    if let Some(seed) = number("LOOP_FUZZ_SEED") {
        compare(&mut event_loop, &clock, seed);
        return;
    }
    let programs = number("LOOP_FUZZ_PROGRAMS").unwrap_or(20_000);
    let lines: usize = (1..=programs).map(|seed| compare(&mut event_loop, &clock, seed)).sum();
    assert!(lines as u64 > programs, "programs that do nothing test nothing");
}

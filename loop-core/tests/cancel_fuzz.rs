//! Random nested programs of catch points, scopes, combinators, groups and child tasks, with requests at
//! random times, against a model that was written from the contract (0.3) and shares no code with the crate:
//! no nodes, no flags, no wakers, but one recursive walk over the program for each rule. What happens in each
//! task, in which order, and how it ends must be the same.
//!
//! `LOOP_FUZZ_PROGRAMS=1000000` runs more of them than `cargo test` does, `LOOP_FUZZ_SEED` one.

#[path = "cancel_fuzz/asks.rs"]
mod asks;
mod common;
#[path = "cancel_fuzz/model.rs"]
mod model;
#[path = "cancel_fuzz/polls.rs"]
mod polls;
#[path = "cancel_fuzz/program.rs"]
mod program;
#[path = "cancel_fuzz/state.rs"]
mod state;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use common::{turn, virtual_loop};
use loop_core::{EventLoop, TaskError, TaskRef, VirtualClock};
use model::Model;
use program::{Program, Random, Task, build, until_phase};

/// What each task tells of, by its number: that of the program is 0.
type Lines = BTreeMap<u32, Vec<String>>;

/// What the tasks of one program share.
#[derive(Default)]
struct World {
    lines: RefCell<Lines>,
    /// Those that were started, by their numbers.
    tasks: RefCell<BTreeMap<u32, TaskRef>>,
    now: Cell<u64>,
    period: u64,
}

/// A task's view of the world.
#[derive(Clone)]
struct Log {
    world: Rc<World>,
    task: u32,
    phase: u64,
}

impl Log {
    fn note(&self, line: String) {
        self.world.lines.borrow_mut().entry(self.task).or_default().push(line);
    }

    fn of_task(&self, task: &Task) -> Log {
        Log { world: self.world.clone(), task: task.number, phase: task.phase }
    }

    fn started(&self, task: TaskRef) {
        self.world.tasks.borrow_mut().insert(self.task, task);
    }

    /// How long to wait, for a wait that begins now.
    fn wait(&self, limit: u64) -> Duration {
        let World { now, period, .. } = &*self.world;
        MS * until_phase(now.get(), limit, self.phase, *period) as u32
    }
}

const MS: Duration = Duration::from_millis(1);

/// Turns an instant: a request moves outward by one level a turn, and from task to task.
const TURNS: u64 = 24;

/// Runs one program both ways; the number of lines that they agreed on, and of tasks.
fn compare(event_loop: &mut EventLoop, clock: &VirtualClock, seed: u64) -> (usize, usize) {
    let mut random = Random(seed);
    let (program, period) = Program::random(&mut random);
    // When (no task begins anything then), and which of the tasks that there are.
    let mut cancels: Vec<(u64, usize)> = (0..random.below(5))
        .map(|_| (random.below(20) * period + period - 1, random.below(8) as usize))
        .collect();
    cancels.sort_unstable();
    let world = Rc::new(World { period, ..World::default() });
    let log = Log { world: world.clone(), task: 0, phase: 0 };
    let task = event_loop.spawn(build(&program, &log));
    log.started(task.task_ref());
    let mut model = Model::new(&program, period);
    let about = || format!("seed {seed}: {program:#?}, cancelled at {cancels:?}");
    let mut over = false;
    for now in 0..400 * period {
        world.now.set(now);
        // In the end they are cancelled until they give in: they can swallow as often as they have points.
        let mut asked: Vec<usize> =
            cancels.iter().filter(|(at, _)| *at == now).map(|(_, which)| *which).collect();
        if now >= 24 * period && now % (8 * period) == period - 1 {
            asked.push((now / (8 * period)) as usize);
        }
        let due = event_loop.next_deadline().is_some_and(|deadline| deadline <= event_loop.now());
        if now > 0 && asked.is_empty() && !due {
            clock.advance(MS);
            continue;
        }
        for (count, which) in asked.into_iter().enumerate() {
            // One task in an instant: the first that is asked for.
            let tasks = world.tasks.borrow();
            let (number, task) = tasks.iter().nth(which % tasks.len()).unwrap();
            let reason = format!("{now}.{count}");
            assert_eq!(task.cancel_with(&reason), model.cancel(*number, &reason), "{}", about());
            if period > 1 {
                break;
            }
        }
        for _ in 0..TURNS * period {
            turn(event_loop);
        }
        model.run(now);
        assert_eq!(*world.lines.borrow(), *model.lines(), "at {now}, {}", about());
        for (number, task) in &*world.tasks.borrow() {
            assert_eq!(task.is_done(), model.is_done(*number), "{number} at {now}, {}", about());
        }
        over = world.tasks.borrow().values().all(TaskRef::is_done);
        if over {
            break;
        }
        clock.advance(MS);
    }
    assert!(over, "it hangs, {}", about());
    assert_eq!(model.tasks(), world.tasks.borrow().len(), "{}", about());
    let end = match task.take_result().unwrap() {
        Ok(()) => None,
        Err(TaskError::Cancelled { reason }) => Some(reason.map(|reason| reason.to_string())),
        Err(other) => panic!("{other}, {}", about()),
    };
    assert_eq!(end, model.end(), "{}", about());
    let lines = world.lines.borrow().values().map(Vec::len).sum();
    (lines, model.tasks())
}

#[test]
fn random_programs_do_what_the_model_says() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (mut event_loop, clock) = virtual_loop();
    // Errors that come when their group is gone are told of.
    event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
    if let Some(seed) = number("LOOP_FUZZ_SEED") {
        compare(&mut event_loop, &clock, seed);
        return;
    }
    let programs = number("LOOP_FUZZ_PROGRAMS").unwrap_or(20_000);
    let (mut lines, mut tasks) = (0, 0);
    for seed in 1..=programs {
        let counts = compare(&mut event_loop, &clock, seed);
        lines += counts.0 as u64;
        tasks += counts.1 as u64;
    }
    println!("{programs} programs of {tasks} tasks agreed on {lines} lines");
    assert!(lines > programs && tasks > programs, "programs that do nothing test nothing");
}

//! Cancellation with third-party combinators in between: every combinator, with catch points in every
//! place, through every event. What must hold in each cell: no hang, no clean-up lost, nothing
//! delivered twice, the right final state.

mod common;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use common::{OnDrop, turn, virtual_loop, watchdog};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, future};
use loop_core::{
    EventLoop, LoopRef, Task, catch_cancelled, current_task, protect, timeout, yield_now,
};

const LIMIT: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Combinator {
    Join,
    TryJoin,
    Select,
    SelectBiased,
    TokioSelect,
    JoinAll,
    Unordered,
    Buffered,
    ChildByValue,
    ChildByRef,
    ChildWatched,
    Plain,
}

use Combinator::*;

const COMBINATORS: [Combinator; 12] = [
    Join,
    TryJoin,
    Select,
    SelectBiased,
    TokioSelect,
    JoinAll,
    Unordered,
    Buffered,
    ChildByValue,
    ChildByRef,
    ChildWatched,
    Plain,
];

impl Combinator {
    /// Whether one branch that is done ends the others.
    fn is_select(self) -> bool {
        matches!(self, Select | SelectBiased | TokioSelect)
    }

    fn is_child(self) -> bool {
        matches!(self, ChildByValue | ChildByRef | ChildWatched)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Points {
    Nowhere,
    InOneBranch,
    InEveryBranch,
    Outside,
}

use Points::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Cancel,
    TimeoutInside,
    TimeoutAround,
    /// The branches wait for another library's future, which is ready right after the cancel.
    ForeignLeaf,
    CancelTwice,
    Abort,
    CancelsItself,
    BeforeFirstPoll,
    /// What is awaited is ready in the very iteration of the cancel.
    ReadyValue,
}

use Event::*;

const EVENTS: [Event; 9] = [
    Cancel,
    TimeoutInside,
    TimeoutAround,
    ForeignLeaf,
    CancelTwice,
    Abort,
    CancelsItself,
    BeforeFirstPoll,
    ReadyValue,
];

#[derive(Debug, Clone, Copy)]
struct Row {
    combinator: Combinator,
    points: Points,
    event: Event,
    swallow: bool,
}

/// What happened to a branch, or to the code around all of them.
#[derive(Debug, Clone, Default)]
struct Seen {
    started: Cell<u32>,
    dropped: Rc<Cell<u32>>,
    caught: Cell<u32>,
    cleaned: Cell<u32>,
}

fn count(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

const OUTSIDE: usize = 100;

struct World {
    cell: Row,
    seen: Vec<Seen>,
    /// The branches' work is done once this is true.
    gate: tokio::sync::watch::Sender<bool>,
    child: RefCell<Option<Task<()>>>,
    went_on: Cell<bool>,
}

impl World {
    async fn work(&self, index: usize) {
        count(&self.seen[index].started);
        let dropped = self.seen[index].dropped.clone();
        let _on_drop = OnDrop(move || count(&dropped));
        let mut gate = self.gate.subscribe();
        gate.wait_for(|open| *open).await.unwrap();
    }

    /// Guards what is passed; what follows a request is the clean-up, and the decision.
    async fn guarded<F: Future<Output = ()>>(&self, index: usize, work: F) {
        let Err(cancelled) = catch_cancelled(work).await else { return };
        let seen = &self.seen[index];
        count(&seen.caught);
        let clean_up = async {
            yield_now().await;
            yield_now().await;
            count(&seen.cleaned);
        };
        match self.cell.event {
            CancelTwice => protect(clean_up).await,
            _ => clean_up.await,
        }
        match self.cell.swallow {
            true => cancelled.swallow(),
            false => cancelled.propagate().await,
        }
    }

    async fn branch(&self, index: usize) {
        let guard = match self.cell.points {
            InOneBranch => index == 0,
            InEveryBranch => true,
            Nowhere | Outside => false,
        };
        let branch = async {
            match guard {
                true => self.guarded(index, self.work(index)).await,
                false => self.work(index).await,
            }
        };
        match self.cell.event {
            TimeoutInside => _ = timeout(LIMIT, branch).await,
            _ => branch.await,
        }
    }

    async fn try_branch(&self, index: usize) -> Result<(), ()> {
        self.branch(index).await;
        Ok(())
    }

    async fn combine(&self) {
        let branch = |index| self.branch(index);
        match self.cell.combinator {
            Join => _ = futures::join!(branch(0), branch(1), branch(2)),
            TryJoin => {
                let [a, b, c] = [0, 1, 2].map(|index| self.try_branch(index));
                futures::try_join!(a, b, c).unwrap();
            }
            Select => {
                let (a, b, c) = (branch(0).fuse(), branch(1).fuse(), branch(2).fuse());
                let (mut a, mut b, mut c) = (pin!(a), pin!(b), pin!(c));
                futures::select! { () = a => (), () = b => (), () = c => () }
            }
            SelectBiased => {
                let (a, b, c) = (branch(0).fuse(), branch(1).fuse(), branch(2).fuse());
                let (mut a, mut b, mut c) = (pin!(a), pin!(b), pin!(c));
                futures::select_biased! { () = a => (), () = b => (), () = c => () }
            }
            TokioSelect => {
                tokio::select! { () = branch(0) => (), () = branch(1) => (), () = branch(2) => () }
            }
            JoinAll => _ = future::join_all((0..40).map(branch)).await,
            Unordered => {
                let mut all: FuturesUnordered<_> = (0..100).map(branch).collect();
                while all.next().await.is_some() {}
            }
            Buffered => {
                let mut all = pin!(futures::stream::iter((0..20).map(branch)).buffer_unordered(6));
                while all.next().await.is_some() {}
            }
            Plain => branch(0).await,
            ChildByValue => {
                let child = self.child.borrow_mut().take().unwrap();
                let _ = child.await;
            }
            ChildByRef => {
                let mut child = self.child.borrow_mut().take().unwrap();
                let _ = (&mut child).await;
            }
            ChildWatched => {
                let child = self.child.borrow_mut().take().unwrap();
                child.watch().await;
            }
        }
    }

    async fn body(&self) {
        if self.cell.event == CancelsItself {
            current_task().unwrap().cancel();
        }
        let combined = async {
            match self.cell.event {
                TimeoutAround => _ = timeout(LIMIT, self.combine()).await,
                _ => self.combine().await,
            }
        };
        match self.cell.points {
            Outside => self.guarded(OUTSIDE, combined).await,
            _ => combined.await,
        }
        // The task is clean again, unless a request is on its way.
        yield_now().await;
        self.went_on.set(true);
    }

    fn sum(&self, counter: impl Fn(&Seen) -> u32) -> u32 {
        self.seen.iter().map(counter).sum()
    }
}

fn turns(event_loop: &mut EventLoop, count: usize) {
    for _ in 0..count {
        turn(event_loop);
    }
}

fn run(cell: Row) {
    let (mut event_loop, clock) = virtual_loop();
    let world = Rc::new(World {
        cell,
        seen: (0..=OUTSIDE).map(|_| Seen::default()).collect(),
        gate: tokio::sync::watch::channel(false).0,
        child: RefCell::new(None),
        went_on: Cell::new(false),
    });
    let child = cell.combinator.is_child().then(|| start_child(&event_loop, &world));
    let task = event_loop.spawn({
        let world = world.clone();
        async move { world.body().await }
    });
    if cell.event == BeforeFirstPoll {
        task.cancel();
        turn(&mut event_loop);
    }
    // All branches are suspended then; of those that cancel themselves, already asked.
    turn(&mut event_loop);
    let live: Vec<bool> = world.seen.iter().map(|seen| seen.started.get() == 1).collect();
    match cell.event {
        TimeoutInside | TimeoutAround => clock.advance(LIMIT),
        Cancel => _ = task.cancel(),
        ForeignLeaf => {
            task.cancel();
            turn(&mut event_loop);
            world.gate.send_replace(true);
        }
        CancelTwice => {
            task.cancel();
            turns(&mut event_loop, 2);
            task.cancel();
        }
        Abort => _ = task.abort(),
        CancelsItself | BeforeFirstPoll => {}
        ReadyValue => {
            world.gate.send_replace(true);
            task.cancel();
        }
    }
    // `FuturesUnordered` polls two futures a step of those that wake themselves.
    turns(&mut event_loop, 150);
    world.gate.send_replace(true);
    turns(&mut event_loop, 100);
    assert!(task.is_done(), "it hangs");
    assert!(event_loop.tasks().is_empty(), "a child hangs");
    check(&world, &task, child.as_ref(), &live);
}

/// The child is the first of the loop's tasks, and starts before its parent.
fn start_child(lp: &LoopRef, world: &Rc<World>) -> loop_core::TaskRef {
    let inside = world.clone();
    let child = lp.spawn(async move { inside.branch(0).await });
    let seen = child.task_ref();
    *world.child.borrow_mut() = Some(child);
    seen
}

fn check(world: &World, task: &Task<()>, child: Option<&loop_core::TaskRef>, live: &[bool]) {
    let Row { combinator, points, event, swallow } = world.cell;
    let requests = if event == CancelTwice { 2 } else { 1 };
    for seen in &world.seen {
        assert_eq!(seen.dropped.get(), seen.started.get(), "work is dropped once");
        assert!(seen.caught.get() <= 1 && seen.cleaned.get() <= seen.caught.get());
    }
    assert!(task.cancelling() <= requests);
    assert_eq!(world.went_on.get(), !task.is_cancelled());

    let guards_work = matches!(points, InOneBranch | InEveryBranch);
    let requested_as_a_whole = !matches!(event, TimeoutInside | TimeoutAround);
    let cancelled = match event {
        TimeoutInside | TimeoutAround => false,
        // Branches that began meanwhile are asked what the protected clean-ups held, and swallow it.
        CancelTwice if combinator == Buffered && points == InEveryBranch => !swallow,
        Abort | BeforeFirstPoll | CancelTwice => true,
        // The parent of a child is asked itself, its child for itself.
        Cancel | ForeignLeaf | CancelsItself | ReadyValue if combinator.is_child() => {
            points != Outside || !swallow
        }
        // A select whose first branch has decided drops the others, and their undecided requests
        // arrive again.
        Cancel | ForeignLeaf | CancelsItself if combinator.is_select() => match points {
            InEveryBranch => true,
            Nowhere => true,
            // The foreign value ends the select while the branch still cleans up.
            InOneBranch => !swallow || event == ForeignLeaf,
            Outside => !swallow,
        },
        ReadyValue if combinator.is_select() => points != Outside || !swallow,
        Cancel | ForeignLeaf | CancelsItself | ReadyValue => points == Nowhere || !swallow,
    };
    assert_eq!(task.is_cancelled(), cancelled, "the final state");

    // Clean-ups.
    let cleaned = world.sum(|seen| seen.cleaned.get());
    let caught = world.sum(|seen| seen.caught.get());
    let outside = &world.seen[OUTSIDE];
    if points == Nowhere || event == BeforeFirstPoll && !combinator.is_child() {
        assert_eq!(caught, 0);
        return;
    }
    if let Some(child) = child {
        let forwarded = match event {
            // The child is done before its parent is asked, or has nobody who is.
            ReadyValue | BeforeFirstPoll | TimeoutInside => false,
            _ => combinator != ChildWatched,
        };
        let asked = forwarded || event == TimeoutInside;
        assert_eq!(child.cancelling(), u32::from(forwarded), "requests to the child");
        if guards_work {
            assert_eq!(world.seen[0].cleaned.get(), u32::from(asked), "the child's clean-up");
            assert_eq!(child.is_cancelled(), forwarded && !swallow);
        } else {
            assert_eq!(child.is_cancelled(), forwarded);
        }
        let asked = requested_as_a_whole && !matches!(event, Abort | BeforeFirstPoll);
        let expected = u32::from(points == Outside && asked);
        assert_eq!(outside.cleaned.get(), expected, "the parent's clean-up");
        return;
    }
    match (points, event) {
        (_, Abort) => assert_eq!(caught, 0, "an abort asks nobody"),
        (Outside, TimeoutInside | TimeoutAround) => assert_eq!(caught, 0, "it is not theirs"),
        (Outside, _) => assert_eq!(outside.cleaned.get(), 1),
        _ if combinator.is_select() => {
            // Losers may lose their clean-up, but if nothing is ready, the winner was one that had it.
            let ended_by_value =
                points == InOneBranch && matches!(event, ReadyValue | ForeignLeaf | TimeoutInside);
            assert!(ended_by_value || cleaned >= 1);
            if !swallow && requested_as_a_whole && !ended_by_value {
                assert_eq!(cleaned, caught, "nobody loses against a propagate");
            }
        }
        _ => {
            for (index, seen) in world.seen.iter().enumerate() {
                let guarded = points == InEveryBranch || index == 0;
                let later = guarded && !live[index] && event == CancelTwice;
                let asked = if later { seen.caught.get() == 1 } else { guarded && live[index] };
                assert_eq!(seen.cleaned.get(), u32::from(asked), "the clean-up of {index}");
            }
        }
    }
}

#[test]
fn every_combinator_with_points_everywhere_through_every_event() {
    let _watchdog = watchdog();
    let mut cells = 0;
    for combinator in COMBINATORS {
        for points in [Nowhere, InOneBranch, InEveryBranch, Outside] {
            for event in EVENTS {
                for swallow in [true, false] {
                    let cell = Row { combinator, points, event, swallow };
                    let ran = std::panic::catch_unwind(|| run(cell));
                    assert!(ran.is_ok(), "{cell:?}");
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, 12 * 4 * 9 * 2);
}

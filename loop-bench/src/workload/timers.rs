//! Timer stores alone, without a loop: deadlines in milliseconds, a clock that is moved by hand.

use super::timer_loads::{cancel99, churn, hold, insert_pop, ordered, overtake, reschedule};
use crate::rival::btree_map::Map;
use crate::rival::calloop::Calloop;
use crate::rival::delay_queue::Wheel;
use crate::rival::keyed_queues::{KeyedPriorityQueue, PriorityQueue};
use crate::rival::layouts::{Binary, FourAry, SortedRuns};
use crate::rival::lazy::Lazy;
use crate::rival::timer_heap::Heap;
use crate::rival::timer_store::TimerStore;
use crate::rival::timer_wheels::{Nexus, QuadWheel};
use crate::rival::tokio_sleep::Sleeps;
use crate::rng::Rng;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

/// Does its work with `n` timers.
pub(super) type Work = fn(u64, &mut Rng) -> Result<Lap, Wrong>;

/// One contest of a generic load, with every store there is.
macro_rules! contest {
    ($name:literal, $load:ident, $n:expr) => {
        Contest::new(
            $name,
            &[("n", $n)],
            vec![
                subject::<Heap>($n, $load::<Heap>),
                subject::<Wheel>($n, $load::<Wheel>),
                subject::<Sleeps>($n, $load::<Sleeps>),
                subject::<Map>($n, $load::<Map>),
                subject::<Lazy<Binary>>($n, $load::<Lazy<Binary>>),
                subject::<PriorityQueue>($n, $load::<PriorityQueue>),
                subject::<KeyedPriorityQueue>($n, $load::<KeyedPriorityQueue>),
                subject::<QuadWheel>($n, $load::<QuadWheel>),
                subject::<Nexus>($n, $load::<Nexus>),
                subject::<Lazy<FourAry>>($n, $load::<Lazy<FourAry>>),
                subject::<Lazy<SortedRuns>>($n, $load::<Lazy<SortedRuns>>),
            ],
        )
    };
    // calloop's timers live in a loop whose clock cannot be moved, and cost O(n) each.
    ($name:literal, $load:ident, $n:expr, with calloop) => {{
        let mut contest = contest!($name, $load, $n);
        if $n <= 1_000 {
            contest.add(subject::<Calloop>($n, $load::<Calloop>));
        }
        contest
    }};
}

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let mut contests = Vec::new();
    for &n in plan.size(&[1_000, 100_000][..], &[1_000, 100_000, 1_000_000]) {
        contests.extend([
            contest!("timers/insert_pop", insert_pop, n, with calloop),
            contest!("timers/ordered", ordered, n, with calloop),
            contest!("timers/churn", churn, n),
            contest!("timers/cancel99", cancel99, n, with calloop),
            contest!("timers/hold", hold, n),
            contest!("timers/reschedule", reschedule, n, with calloop),
            // Of those that can tell the next deadline without a runtime around them.
            Contest::new(
                "timers/overtake",
                &[("n", n)],
                vec![
                    subject::<Heap>(n, overtake::<Heap>),
                    subject::<Map>(n, overtake::<Map>),
                    subject::<Lazy<Binary>>(n, overtake::<Lazy<Binary>>),
                    subject::<Lazy<FourAry>>(n, overtake::<Lazy<FourAry>>),
                    subject::<Lazy<SortedRuns>>(n, overtake::<Lazy<SortedRuns>>),
                ],
            ),
        ]);
    }
    contests
}

/// A round repeats small work on fresh stores until it has done 100,000 operations, so that a lap
/// is long enough for the clock.
fn subject<S: TimerStore>(n: u64, work: Work) -> Subject {
    named(S::NAME, n, work)
}

/// The same under another name.
pub(super) fn named(name: &'static str, n: u64, work: Work) -> Subject {
    Subject::new(name, move |seed| {
        let mut rng = Rng::new(seed);
        let mut total = work(n, &mut rng)?;
        for _ in 1..(100_000 / n).max(1) {
            total = total.plus(work(n, &mut rng)?);
        }
        Ok(total)
    })
}

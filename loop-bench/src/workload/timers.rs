//! Timer stores alone, without a loop: deadlines in milliseconds, a clock that is moved by hand.

use crate::rival::delay_queue::Wheel;
use crate::rival::std_timers::{Lazy, Map};
use crate::rival::timer_heap::Heap;
use crate::rival::timer_store::TimerStore;
use crate::rng::{Rng, mix};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

/// All deadlines of a store lie below this: about a quarter of an hour.
const HORIZON: u64 = 1 << 20;

/// Does its work with `n` timers.
type Work = fn(u64, &mut Rng) -> Result<Lap, Wrong>;

/// One contest of a generic function, with every store there is.
macro_rules! contest {
    ($name:literal, $work:ident, $n:expr) => {
        Contest::new(
            $name,
            &[("n", $n)],
            vec![
                subject::<Heap>($n, $work::<Heap>),
                subject::<Wheel>($n, $work::<Wheel>),
                subject::<Map>($n, $work::<Map>),
                subject::<Lazy>($n, $work::<Lazy>),
            ],
        )
    };
}

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let mut contests = Vec::new();
    for &n in plan.size(&[1_000, 100_000][..], &[1_000, 100_000, 1_000_000]) {
        contests.extend([
            contest!("timers/insert_pop", insert_pop, n),
            contest!("timers/ordered", ordered, n),
            contest!("timers/churn", churn, n),
            contest!("timers/cancel99", cancel99, n),
            contest!("timers/hold", hold, n),
            contest!("timers/reschedule", reschedule, n),
        ]);
    }
    contests
}

/// A round repeats small work on fresh stores until it has done 100,000 operations, so that a lap
/// is long enough for the clock.
fn subject<S: TimerStore>(n: u64, work: Work) -> Subject {
    Subject::new(S::NAME, move |seed| {
        let mut rng = Rng::new(seed);
        let mut total = work(n, &mut rng)?;
        for _ in 1..(100_000 / n).max(1) {
            total = total.plus(work(n, &mut rng)?);
        }
        Ok(total)
    })
}

/// Insert `n` timers with random deadlines, then let all expire.
fn insert_pop<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens: Vec<u64> = (0..n).map(|_| rng.below(HORIZON)).collect();
    fill_and_drain::<S>(&whens)
}

/// The same with deadlines that only grow, eight timers to each: what equal timeouts give.
fn ordered<S: TimerStore>(n: u64, _rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens: Vec<u64> = (0..n).map(|id| 1 + id / 8).collect();
    fill_and_drain::<S>(&whens)
}

fn fill_and_drain<S: TimerStore>(whens: &[u64]) -> Result<Lap, Wrong> {
    let mut store = S::new();
    let mut due = Vec::with_capacity(whens.len());
    let (lap, ()) = Lap::time(whens.len() as u64, || {
        for (id, &when) in whens.iter().enumerate() {
            store.insert(when, id as u32);
        }
        store.turn(HORIZON, &mut due);
    });
    check_drained::<S>(&due, whens, |_| true)?;
    Ok(lap)
}

/// `n` timers stand; insert one, cancel one at random, `n` times: a timeout a request, never reached.
fn churn<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let mut store = S::new();
    let mut whens: Vec<u64> = (0..n).map(|_| rng.below(HORIZON)).collect();
    let mut keys: Vec<S::Key> =
        whens.iter().enumerate().map(|(id, &when)| store.insert(when, id as u32)).collect();
    let steps: Vec<(usize, u64)> =
        (0..n).map(|_| (rng.below(n) as usize, rng.below(HORIZON))).collect();
    let (lap, cancelled) = Lap::time(n, || {
        let mut cancelled = 0;
        for &(slot, when) in &steps {
            let fresh = store.insert(when, slot as u32);
            let stale = std::mem::replace(&mut keys[slot], fresh);
            cancelled += u64::from(store.cancel(stale) == Some(slot as u32));
        }
        cancelled
    });
    Wrong::unless_equal("cancelled timers that came back", cancelled, n)?;
    steps.iter().for_each(|&(slot, when)| whens[slot] = when);
    // A slot's place in insertion order is that of its last insertion, or of the first fill.
    let mut inserted: Vec<usize> = (0..n as usize).collect();
    steps.iter().enumerate().for_each(|(step, &(slot, _))| inserted[slot] = n as usize + step);
    drain_and_check(&mut store, &whens, |id| inserted[id as usize])?;
    Ok(lap)
}

/// Insert `n` timers, cancel 99 of 100 in random order, let the rest expire.
fn cancel99<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens: Vec<u64> = (0..n).map(|_| rng.below(HORIZON)).collect();
    let mut order: Vec<u32> = (0..n as u32).collect();
    rng.shuffle(&mut order);
    let (survivors, doomed) = order.split_at(n as usize / 100);
    let mut store = S::new();
    let mut due = Vec::with_capacity(survivors.len());
    let mut keys = Vec::with_capacity(n as usize);
    let (lap, cancelled) = Lap::time(n, || {
        keys.extend(whens.iter().enumerate().map(|(id, &when)| store.insert(when, id as u32)));
        let mut cancelled = 0;
        for &id in doomed {
            cancelled += usize::from(store.cancel(keys[id as usize]) == Some(id));
        }
        store.turn(HORIZON, &mut due);
        cancelled
    });
    Wrong::unless_equal("cancelled timers that came back", cancelled, doomed.len())?;
    let mut lives = vec![false; n as usize];
    survivors.iter().for_each(|&id| lives[id as usize] = true);
    check_drained::<S>(&due, &whens, |id| lives[id as usize])?;
    Ok(lap)
}

/// `n` timers stand; every turn of ten milliseconds those that are due are started again: the
/// classical hold model of a simulation, or `n` periodic tasks.
fn hold<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    const STEP: u64 = 10;
    const TURNS: u64 = 50;
    let again = |id: u32, now: u64| now + 1 + mix(u64::from(id) << 32 | now) % 1_000;
    let first: Vec<u64> = (0..n).map(|_| 1 + rng.below(1_000)).collect();

    // Each timer's life does not depend on the others', so what must happen is known beforehand.
    let (mut expiries, mut sum) = (0_u64, 0_u64);
    for (id, &when) in first.iter().enumerate() {
        let mut when = when;
        while when <= STEP * TURNS {
            let now = when.next_multiple_of(STEP);
            expiries += 1;
            sum = sum.wrapping_add(mix(now ^ id as u64));
            when = again(id as u32, now);
        }
    }

    let mut store = S::new();
    first.iter().enumerate().for_each(|(id, &when)| _ = store.insert(when, id as u32));
    let mut due = Vec::with_capacity(n as usize);
    let (lap, (found, found_sum)) = Lap::time(expiries, || {
        let (mut found, mut found_sum) = (0, 0_u64);
        for turn in 1..=TURNS {
            let now = turn * STEP;
            due.clear();
            store.turn(now, &mut due);
            for &id in &due {
                found_sum = found_sum.wrapping_add(mix(now ^ u64::from(id)));
                store.insert(again(id, now), id);
            }
            found += due.len() as u64;
        }
        (found, found_sum)
    });
    Wrong::unless_equal("expiries", found, expiries)?;
    Wrong::unless_equal("who expired when", found_sum, sum)?;
    Ok(lap)
}

/// `n` timers stand; move one at random, `n` times: an idle timeout, pushed away by each byte.
fn reschedule<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let mut store = S::new();
    let mut whens: Vec<u64> = (0..n).map(|_| rng.below(HORIZON)).collect();
    let mut keys: Vec<S::Key> =
        whens.iter().enumerate().map(|(id, &when)| store.insert(when, id as u32)).collect();
    let steps: Vec<(usize, u64)> =
        (0..n).map(|_| (rng.below(n) as usize, rng.below(HORIZON))).collect();
    let (lap, ()) = Lap::time(n, || {
        for &(id, when) in &steps {
            keys[id] = store.reschedule(keys[id], when);
        }
    });
    steps.iter().for_each(|&(id, when)| whens[id] = when);
    let mut moved: Vec<usize> = (0..n as usize).collect();
    steps.iter().enumerate().for_each(|(step, &(id, _))| moved[id] = n as usize + step);
    drain_and_check(&mut store, &whens, |id| moved[id as usize])?;
    Ok(lap)
}

fn drain_and_check<S: TimerStore>(
    store: &mut S,
    whens: &[u64],
    place: impl Fn(u32) -> usize,
) -> Result<(), Wrong> {
    let mut due = Vec::new();
    store.turn(HORIZON, &mut due);
    check_order::<S>(&due, whens, place)?;
    check_members(&due, whens.len(), |_| true)
}

fn check_drained<S: TimerStore>(
    due: &[u32],
    whens: &[u64],
    lives: impl Fn(u32) -> bool,
) -> Result<(), Wrong> {
    check_order::<S>(due, whens, |id| id as usize)?;
    check_members(due, whens.len(), lives)
}

/// By deadline, and where the store promises it, equal deadlines by their place in insertion order.
fn check_order<S: TimerStore>(
    due: &[u32],
    whens: &[u64],
    place: impl Fn(u32) -> usize,
) -> Result<(), Wrong> {
    for pair in due.windows(2) {
        let [before, after] = [pair[0], pair[1]].map(|id| (whens[id as usize], place(id)));
        let right = if S::FIFO { before < after } else { before.0 <= after.0 };
        if !right {
            return Err(Wrong(format!("(deadline, place): {before:?} left before {after:?}")));
        }
    }
    Ok(())
}

/// Exactly those that live, each once.
fn check_members(due: &[u32], n: usize, lives: impl Fn(u32) -> bool) -> Result<(), Wrong> {
    let mut times = vec![0_u32; n];
    due.iter().for_each(|&id| times[id as usize] += 1);
    for (id, &times) in times.iter().enumerate() {
        if times != u32::from(lives(id as u32)) {
            return Err(Wrong(format!("timer {id} expired {times} times")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store with a fault, to see that the workloads would notice.
    struct Faulty<const FAULT: u8>(Map);

    const NONE: u8 = 0;
    const LOSES: u8 = 1;
    const LATE: u8 = 2;
    const REVERSED: u8 = 3;

    impl<const FAULT: u8> TimerStore for Faulty<FAULT> {
        const NAME: &'static str = "faulty";
        const FIFO: bool = true;
        type Key = (u64, u64);

        fn new() -> Self {
            Self(Map::new())
        }

        fn insert(&mut self, when: u64, id: u32) -> Self::Key {
            self.0.insert(if FAULT == LATE && id % 16 == 3 { when + 10 } else { when }, id)
        }

        fn cancel(&mut self, key: Self::Key) -> Option<u32> {
            self.0.cancel(key)
        }

        fn reschedule(&mut self, key: Self::Key, when: u64) -> Self::Key {
            if FAULT == LATE { key } else { self.0.reschedule(key, when) }
        }

        fn turn(&mut self, now: u64, due: &mut Vec<u32>) {
            let start = due.len();
            self.0.turn(now, due);
            match FAULT {
                LOSES => _ = due.pop(),
                REVERSED => due[start..].reverse(),
                _ => {}
            }
        }
    }

    fn verdicts<S: TimerStore>() -> Vec<bool> {
        let works: [Work; 6] =
            [insert_pop::<S>, ordered::<S>, churn::<S>, cancel99::<S>, hold::<S>, reschedule::<S>];
        works.iter().map(|work| work(500, &mut Rng::new(9)).is_ok()).collect()
    }

    #[test]
    fn every_store_gives_right_answers() {
        assert_eq!(verdicts::<Heap>(), [true; 6], "loop-timer");
        assert_eq!(verdicts::<Wheel>(), [true; 6], "tokio-util");
        assert_eq!(verdicts::<Map>(), [true; 6], "std/btreemap");
        assert_eq!(verdicts::<Lazy>(), [true; 6], "std/binaryheap");
        assert_eq!(verdicts::<Faulty<NONE>>(), [true; 6], "the faulty one without its fault");
    }

    #[test]
    fn a_lost_timer_is_noticed() {
        assert_eq!(verdicts::<Faulty<LOSES>>(), [false; 6]);
    }

    #[test]
    fn a_late_timer_is_noticed() {
        // The other three deal random deadlines, between which 10 ms may pass unseen.
        let verdicts = verdicts::<Faulty<LATE>>();
        assert_eq!([verdicts[1], verdicts[4], verdicts[5]], [false; 3]);
    }

    #[test]
    fn a_wrong_order_is_noticed() {
        let verdicts = verdicts::<Faulty<REVERSED>>();
        assert_eq!([verdicts[0], verdicts[1], verdicts[2], verdicts[5]], [false; 4]);
    }
}

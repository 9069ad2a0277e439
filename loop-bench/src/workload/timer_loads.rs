//! The loads that timer stores are put under, each with the check of its answer.

use super::timer_order::Expected;
use crate::rival::timer_store::TimerStore;
use crate::rng::{Rng, mix};
use crate::sample::{Lap, Wrong};

/// Random deadlines lie below this: about a quarter of an hour.
const HORIZON: u64 = 1 << 20;
/// The timeout of a request: half a minute.
const TIMEOUT: u64 = 30_000;
/// After all deadlines of the loads that let time pass.
const LATE: u64 = 4 * TIMEOUT;

fn drain<S: TimerStore>(store: &mut S, now: u64, due: &mut Vec<u32>) {
    while let Some(id) = store.pop(now) {
        due.push(id);
    }
}

fn random_whens(n: u64, rng: &mut Rng) -> Vec<u64> {
    (0..n).map(|_| 1 + rng.below(HORIZON)).collect()
}

fn insert_all<S: TimerStore>(store: &mut S, whens: &[u64]) -> Vec<Option<S::Key>> {
    (0..).zip(whens).map(|(id, &when)| Some(store.insert(when, id))).collect()
}

/// Insert `n` timers with random deadlines, then let all expire.
pub(super) fn insert_pop<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    fill_and_drain::<S>(&random_whens(n, rng))
}

/// The same with deadlines that only grow, eight timers to each: what equal timeouts give.
pub(super) fn ordered<S: TimerStore>(n: u64, _rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens: Vec<u64> = (0..n).map(|id| 1 + id / 8).collect();
    fill_and_drain::<S>(&whens)
}

fn fill_and_drain<S: TimerStore>(whens: &[u64]) -> Result<Lap, Wrong> {
    let mut due = Vec::with_capacity(whens.len());
    let mut store = S::new();
    let (lap, ()) = Lap::time(whens.len() as u64, || {
        for (id, &when) in (0..).zip(whens) {
            store.insert_only(when, id);
        }
        drain(&mut store, HORIZON, &mut due);
    });
    Expected::new(whens).all_left::<S>(&due, |_| true)?;
    Ok(lap)
}

/// `n` requests under way, each with a timeout of half a minute. A step: one is answered, its
/// timeout cancelled, and the next one is sent. One in ten is never answered, and expires.
pub(super) fn churn<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    /// Steps between two looks at the clock.
    const TURN: usize = 64;
    let whens: Vec<u64> = (0..n).map(|_| 1 + rng.below(TIMEOUT)).collect();
    let victims: Vec<u32> = (0..n).map(|_| rng.below(n) as u32).collect();
    // A timer is cancelled in a step with probability 1 / n, so e^-2.3 of them see 2.3 n steps.
    let time = |step: usize| step as u64 * TIMEOUT * 10 / (23 * n);

    let mut store = S::new();
    let mut keys = insert_all(&mut store, &whens);
    let mut expired = Vec::with_capacity(n as usize);
    let (lap, cancelled) = Lap::time(n, || {
        let (mut now, mut cancelled) = (0, 0);
        for (step, &id) in victims.iter().enumerate() {
            if step % TURN == 0 {
                now = time(step);
                while let Some(id) = store.pop(now) {
                    expired.push(id);
                    let fresh = store.insert(now + TIMEOUT, id);
                    keys[id as usize].replace(fresh).into_iter().for_each(|key| store.forget(key));
                }
            }
            let key = keys[id as usize].take();
            cancelled += u64::from(key.and_then(|key| store.cancel(key)) == Some(id));
            keys[id as usize] = Some(store.insert(now + TIMEOUT, id));
        }
        cancelled
    });
    Wrong::unless_equal("cancelled timers that came back", cancelled, n)?;

    // A calendar knows who expires when: a page for each millisecond, on it timers by their places.
    let mut calendar = vec![Vec::new(); LATE as usize];
    (0..).zip(&whens).for_each(|(id, &when)| calendar[when as usize].push((id, u64::from(id))));
    let mut expected = Expected::new(&whens);
    let (mut now, mut turned) = (0, 0);
    let mut log = expired.iter();
    for (step, &id) in victims.iter().enumerate() {
        if step % TURN == 0 {
            now = time(step);
            let mut again = Vec::new();
            for page in turned..=now {
                for (id, place) in std::mem::take(&mut calendar[page as usize]) {
                    if expected.places[id as usize] != place {
                        continue;
                    }
                    let found = log.next().ok_or_else(|| Wrong(format!("{id} did not expire")))?;
                    if S::FIFO {
                        Wrong::unless_equal("who expired", *found, id)?;
                    }
                    let when = expected.whens[*found as usize];
                    Wrong::unless_equal("whose deadline was reached", when, page)?;
                    again.push(*found);
                }
            }
            turned = now + 1;
            for id in again {
                expected.insert(id, now + TIMEOUT);
                calendar[(now + TIMEOUT) as usize].push((id, expected.places[id as usize]));
            }
        }
        expected.insert(id, now + TIMEOUT);
        calendar[(now + TIMEOUT) as usize].push((id, expected.places[id as usize]));
    }
    Wrong::unless_equal("expiries too many", log.count(), 0)?;

    let mut due = Vec::new();
    drain(&mut store, LATE, &mut due);
    keys.into_iter().flatten().for_each(|key| store.forget(key));
    expected.all_left::<S>(&due, |_| true)?;
    Ok(lap)
}

/// Insert `n` timers, cancel 99 of 100 in random order, let the rest expire.
pub(super) fn cancel99<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens = random_whens(n, rng);
    let mut order: Vec<u32> = (0..n as u32).collect();
    rng.shuffle(&mut order);
    let (survivors, doomed) = order.split_at(n as usize / 100);
    let mut store = S::new();
    let mut due = Vec::with_capacity(survivors.len());
    let mut keys = Vec::with_capacity(n as usize);
    let (lap, cancelled) = Lap::time(n, || {
        keys.extend((0..).zip(&whens).map(|(id, &when)| Some(store.insert(when, id))));
        let mut cancelled = 0;
        for &id in doomed {
            let key = keys[id as usize].take();
            cancelled += usize::from(key.and_then(|key| store.cancel(key)) == Some(id));
        }
        drain(&mut store, HORIZON, &mut due);
        cancelled
    });
    keys.into_iter().flatten().for_each(|key| store.forget(key));
    Wrong::unless_equal("cancelled timers that came back", cancelled, doomed.len())?;
    let mut lives = vec![false; n as usize];
    survivors.iter().for_each(|&id| lives[id as usize] = true);
    Expected::new(&whens).all_left::<S>(&due, |id| lives[id as usize])?;
    Ok(lap)
}

/// `n` timers stand; each step takes the earliest and inserts it again, some time after its own
/// deadline: the classical hold model of a simulation.
pub(super) fn hold<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens = random_whens(n, rng);
    let seed = rng.draw();
    let again = |step: u64, when: u64| when + 1 + mix(seed ^ step) % HORIZON;

    let mut store = S::new();
    (0..).zip(&whens).for_each(|(id, &when)| store.insert_only(when, id));
    let mut moving = whens.clone();
    let mut due = Vec::with_capacity(2 * n as usize);
    let (lap, ()) = Lap::time(n, || {
        for step in 0..n {
            let Some(id) = store.pop_first() else { break };
            due.push(id);
            let when = again(step, moving[id as usize]);
            moving[id as usize] = when;
            store.insert_only(when, id);
        }
    });
    Wrong::unless_equal("steps done", due.len() as u64, n)?;

    // No timer goes in before one that has left, so all must leave in one ascending order.
    let mut expected = Expected::new(&whens);
    for (step, &id) in (0..).zip(&due) {
        expected.left::<S>(id)?;
        expected.insert(id, again(step, expected.whens[id as usize]));
    }
    due.clear();
    while let Some(id) = store.pop_first() {
        due.push(id);
        if due.len() as u64 == n {
            break;
        }
    }
    expected.all_left::<S>(&due, |_| true)?;
    Ok(lap)
}

/// `n` timers stand; each step pushes a random one half a minute ahead: an idle timeout, pushed
/// away by each byte.
pub(super) fn reschedule<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let whens: Vec<u64> = (0..n).map(|_| TIMEOUT / 2 + rng.below(TIMEOUT / 2)).collect();
    let steps: Vec<(u32, u64)> =
        (0..n).map(|step| (rng.below(n) as u32, TIMEOUT + step * TIMEOUT / (3 * n))).collect();
    let mut store = S::new();
    let mut keys = insert_all(&mut store, &whens);
    let (lap, ()) = Lap::time(n, || {
        for &(id, when) in &steps {
            let key = keys[id as usize].take();
            keys[id as usize] = key.map(|key| store.reschedule(key, when));
        }
    });
    let mut expected = Expected::new(&whens);
    steps.iter().for_each(|&(id, when)| expected.insert(id, when));
    let mut due = Vec::new();
    drain(&mut store, LATE, &mut due);
    keys.into_iter().flatten().for_each(|key| store.forget(key));
    expected.all_left::<S>(&due, |_| true)?;
    Ok(lap)
}

/// A far crowd of two thirds of `n` is looked at, then the rest goes in before it, then all expire:
/// the worst for a ladder, which has moved to the crowd and has no buckets before it.
pub(super) fn overtake<S: TimerStore>(n: u64, rng: &mut Rng) -> Result<Lap, Wrong> {
    let (crowd, mut whens) = (2 * n / 3 + 1, random_whens(n, rng));
    whens[..crowd as usize].iter_mut().for_each(|when| *when += HORIZON);
    let mut due = Vec::with_capacity(n as usize);
    let mut store = S::new();
    let (lap, looked) = Lap::time(n, || {
        let mut looked = None;
        for (id, &when) in (0..).zip(&whens) {
            store.insert_only(when, id);
            if u64::from(id) + 1 == crowd {
                looked = store.next_deadline();
            }
        }
        drain(&mut store, 2 * HORIZON, &mut due);
        looked
    });
    let nearest = whens[..crowd as usize].iter().min().copied();
    Wrong::unless_equal("next deadline", looked, nearest)?;
    Expected::new(&whens).all_left::<S>(&due, |_| true)?;
    Ok(lap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::btree_map::Map;
    use crate::rival::calloop::Calloop;
    use crate::rival::delay_queue::Wheel;
    use crate::rival::eager::Eager;
    use crate::rival::keyed_queues::{KeyedPriorityQueue, PriorityQueue};
    use crate::rival::layouts::{Binary, FourAry, SortedRuns};
    use crate::rival::lazy::Lazy;
    use crate::rival::timer_heap::Heap;
    use crate::rival::timer_wheels::{Nexus, QuadWheel};
    use crate::rival::tokio_sleep::Sleeps;

    /// A store with a fault, to see that the workloads would notice.
    struct Faulty<const FAULT: u8> {
        map: Map,
        held_back: Option<u32>,
    }

    const NONE: u8 = 0;
    const LOSES: u8 = 1;
    const LATE: u8 = 2;
    const SWAPS: u8 = 3;

    impl<const FAULT: u8> TimerStore for Faulty<FAULT> {
        const NAME: &'static str = "faulty";
        const FIFO: bool = true;
        type Key = (u64, u64);

        fn new() -> Self {
            Self { map: Map::new(), held_back: None }
        }

        fn insert(&mut self, when: u64, id: u32) -> Self::Key {
            self.map.insert(if FAULT == LATE && id % 16 == 3 { when + 5_000 } else { when }, id)
        }

        fn cancel(&mut self, key: Self::Key) -> Option<u32> {
            self.map.cancel(key)
        }

        fn reschedule(&mut self, key: Self::Key, when: u64) -> Self::Key {
            if FAULT == LATE { key } else { self.map.reschedule(key, when) }
        }

        fn pop(&mut self, now: u64) -> Option<u32> {
            if let Some(id) = self.held_back.take() {
                return Some(id);
            }
            let id = self.map.pop(now)?;
            match FAULT {
                LOSES if id % 16 == 3 => self.map.pop(now),
                SWAPS if id % 16 == 3 => match self.map.pop(now) {
                    Some(next) => {
                        self.held_back = Some(id);
                        Some(next)
                    }
                    None => Some(id),
                },
                _ => Some(id),
            }
        }
    }

    type Work = fn(u64, &mut Rng) -> Result<Lap, Wrong>;

    fn verdicts<S: TimerStore>() -> [bool; 6] {
        let works: [Work; 6] =
            [insert_pop::<S>, ordered::<S>, cancel99::<S>, reschedule::<S>, churn::<S>, hold::<S>];
        // So many that some of those that survive `cancel99` are hit by the fault.
        works.map(|work| work(10_000, &mut Rng::new(9)).is_ok())
    }

    #[test]
    fn every_store_gives_right_answers() {
        assert_eq!(verdicts::<Heap>(), [true; 6], "loop-timer");
        assert_eq!(verdicts::<Wheel>(), [true; 6], "tokio-util");
        assert_eq!(verdicts::<Sleeps>(), [true; 6], "tokio/sleep");
        assert_eq!(verdicts::<Map>(), [true; 6], "std/btreemap");
        assert_eq!(verdicts::<Lazy<Binary>>(), [true; 6], "std/binaryheap");
        assert_eq!(verdicts::<Lazy<FourAry>>(), [true; 6], "layout/4-ary");
        assert_eq!(verdicts::<Lazy<SortedRuns>>(), [true; 6], "layout/sorted-runs");
        assert_eq!(verdicts::<Eager>(), [true; 6], "eager");
        assert_eq!(verdicts::<PriorityQueue>(), [true; 6], "priority-queue");
        assert_eq!(verdicts::<KeyedPriorityQueue>(), [true; 6], "keyed_priority_queue");
        assert_eq!(verdicts::<QuadWheel>(), [true; 6], "hierarchical_hash_wheel_timer");
        assert_eq!(verdicts::<Nexus>(), [true; 6], "nexus-timer");
        let works: [Work; 4] =
            [insert_pop::<Calloop>, ordered::<Calloop>, cancel99::<Calloop>, reschedule::<Calloop>];
        for work in works {
            assert_eq!(work(1_000, &mut Rng::new(9)).err(), None, "calloop");
        }
        assert_eq!(verdicts::<Faulty<NONE>>(), [true; 6], "the faulty one without its fault");
    }

    #[test]
    fn the_stores_that_can_look_ahead_are_right_when_overtaken() {
        assert!(overtake::<Heap>(2_000, &mut Rng::new(9)).is_ok());
        assert!(overtake::<Map>(2_000, &mut Rng::new(9)).is_ok());
        assert!(overtake::<Lazy<Binary>>(2_000, &mut Rng::new(9)).is_ok());
        assert!(overtake::<Lazy<SortedRuns>>(2_000, &mut Rng::new(9)).is_ok());
        assert!(overtake::<Eager>(2_000, &mut Rng::new(9)).is_ok());
        assert!(overtake::<Wheel>(2_000, &mut Rng::new(9)).is_err(), "it tells no deadline");
    }

    #[test]
    fn a_lost_timer_is_noticed() {
        assert_eq!(verdicts::<Faulty<LOSES>>(), [false; 6]);
    }

    #[test]
    fn a_late_timer_is_noticed() {
        assert_eq!(verdicts::<Faulty<LATE>>(), [false; 6]);
    }

    #[test]
    fn a_wrong_order_is_noticed() {
        assert_eq!(verdicts::<Faulty<SWAPS>>(), [false; 6]);
    }
}

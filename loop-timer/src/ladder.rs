//! `Ladder`: entries in the order of their deadlines, cheap to add to at any distance.

use alloc::collections::BinaryHeap;
use alloc::vec::{self, Vec};
use core::mem;

use crate::bucket::{Bucket, sift};
use crate::deadline::Deadline;
use crate::entry::Entry;

/// A rung has one bucket for each digit, and a digit has this many bits.
const BITS: u32 = 6;
const DIGITS: usize = 1 << BITS;
const RUNGS: usize = (64 + BITS as usize - 1) / BITS as usize;
/// A bucket of up to so many entries is not spread over the rungs below it, but sorted.
const RUN: usize = 128;
/// No bucket: where the newest entry went if it went to `early`.
const EARLY: usize = usize::MAX;

/// A radix heap whose lowest bucket is sorted into a run, and a small binary heap beside it.
///
/// `base` divides what is near from what is far. An entry whose tick is beyond it lies on the rung
/// of the highest digit in which the two differ, in the bucket of that digit: so the first bucket
/// of the lowest rung is always the earliest. When nothing is near, `base` moves to that bucket and
/// its entries come down: sorted into `run` if they are few, else to the buckets of lower rungs.
/// What is added at or before `base` later on goes to `early`. An entry on its way down is brought up
/// to date: one that died goes no further, and one that was put off goes back up.
///
/// Many a timer is cancelled before another one comes. While its entry is the last of its bucket it is
/// taken out with it, and nothing is left. For the sake of that the newest entry that belongs to `early`
/// waits beside it until another comes or somebody looks.
pub(crate) struct Ladder<W> {
    /// The slot of the entry that came last, and the bucket it went to; it may have moved on since.
    newest: (u32, usize),
    newest_early: Option<Entry<W>>,
    /// The latest first.
    run: Vec<Entry<W>>,
    early: BinaryHeap<Entry<W>>,
    /// Rung by rung, up to the last rung that was ever used.
    buckets: Vec<Bucket<W>>,
    /// Which buckets of a rung have entries, a bit each.
    occupied: [u64; RUNGS],
    base: u64,
    /// The deadline from which ticks are counted.
    origin: Option<W>,
    len: usize,
    /// The bucket, and the block of it, that is to be swept next.
    cursor: (usize, usize),
    /// How many entries went to `early` since `base` was last moved.
    overtaken: usize,
}

impl<W: Deadline> Ladder<W> {
    pub(crate) fn new() -> Ladder<W> {
        Ladder {
            newest: (u32::MAX, EARLY),
            newest_early: None,
            run: Vec::new(),
            early: BinaryHeap::new(),
            buckets: Vec::new(),
            occupied: [0; RUNGS],
            base: 0,
            origin: None,
            len: 0,
            cursor: (0, 0),
            overtaken: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry<W>) {
        self.len += 1;
        let origin = *self.origin.get_or_insert(entry.when);
        let tick = entry.when.ticks(origin);
        if tick > self.base {
            self.newest = (entry.slot, self.place(tick, entry));
        } else {
            self.overtake(entry);
        }
    }

    /// All entries of a slot are dead: takes the last one out if that costs nothing.
    #[inline]
    pub(crate) fn withdraw(&mut self, slot: u32) {
        if self.newest.0 == slot {
            self.withdraw_newest();
        }
    }

    #[inline(never)]
    fn withdraw_newest(&mut self) {
        let (slot, index) = self.newest;
        let gone = match self.buckets.get_mut(index) {
            Some(bucket) => {
                let gone = bucket.pop_if(slot);
                if gone && bucket.is_empty() {
                    self.occupied[index / DIGITS] &= !(1 << (index % DIGITS));
                }
                gone
            }
            None => self.newest_early.take().is_some(),
        };
        self.len -= usize::from(gone);
    }

    #[cold]
    #[inline(never)]
    fn overtake(&mut self, entry: Entry<W>) {
        self.settle();
        self.newest = (entry.slot, EARLY);
        self.newest_early = Some(entry);
        if self.overtaken > RUN && self.overtaken > self.len / 2 {
            self.step_back();
        }
    }

    #[inline]
    fn settle(&mut self) {
        if let Some(entry) = self.newest_early.take() {
            self.early.push(entry);
            self.overtaken += 1;
        }
    }

    /// The first entry. `update` may put an entry off, and says which are worth keeping.
    pub(crate) fn first(&mut self, update: impl FnMut(&mut Entry<W>) -> bool) -> Option<&Entry<W>> {
        // A loop without timers asks before each wait.
        if self.len == 0 {
            return None;
        }
        self.settle();
        if self.run.is_empty() && self.early.is_empty() {
            self.refill(update);
        }
        match (self.run.last(), self.early.peek()) {
            (Some(run), Some(early)) => Some(run.max(early)),
            (run, early) => run.or(early),
        }
    }

    /// True if nothing is due by `now`, as far as that can be told without moving `base`: a look
    /// ahead in vain must not make later insertions overtake.
    pub(crate) fn is_quiet(&self, now: W) -> bool {
        let near = self.run.len() + self.early.len() + usize::from(self.newest_early.is_some());
        let origin = match self.origin {
            Some(origin) if near == 0 => origin,
            _ => return false,
        };
        match self.occupied.iter().position(|&digits| digits != 0) {
            Some(rung) => now.ticks(origin) < self.start(rung),
            None => true,
        }
    }

    /// The lowest tick of the first bucket of a rung that has entries.
    fn start(&self, rung: usize) -> u64 {
        let shift = rung as u32 * BITS;
        let above = u64::MAX.checked_shl(shift + BITS).unwrap_or(0);
        (self.base & above) | u64::from(self.occupied[rung].trailing_zeros()) << shift
    }

    /// Takes out what `first` returned.
    pub(crate) fn pop(&mut self) {
        let early = match (self.run.last(), self.early.peek()) {
            (Some(run), Some(early)) => early > run,
            (run, _) => run.is_none(),
        };
        let popped = if early { self.early.pop() } else { self.run.pop() };
        self.len -= usize::from(popped.is_some());
    }

    /// The bucket that it goes to.
    #[inline(always)]
    fn place(&mut self, tick: u64, entry: Entry<W>) -> usize {
        let rung = (63 - (tick ^ self.base).leading_zeros()) / BITS;
        let digit = (tick >> (rung * BITS)) as usize % DIGITS;
        let index = rung as usize * DIGITS + digit;
        if self.buckets.len() <= index {
            self.reach(rung as usize);
        }
        self.occupied[rung as usize] |= 1 << digit;
        self.buckets[index].push(entry);
        index
    }

    #[cold]
    #[inline(never)]
    fn reach(&mut self, rung: usize) {
        self.buckets.resize_with((rung + 1) * DIGITS, Bucket::new);
    }

    #[inline(never)]
    fn refill(&mut self, mut update: impl FnMut(&mut Entry<W>) -> bool) {
        while self.run.is_empty() {
            let rung = match self.occupied.iter().position(|&digits| digits != 0) {
                Some(rung) => rung,
                None => return,
            };
            let lowest = self.start(rung);
            let digit = self.occupied[rung].trailing_zeros();
            self.occupied[rung] &= self.occupied[rung] - 1;
            self.overtaken = 0;
            let bucket = &mut self.buckets[rung * DIGITS + digit as usize];
            if bucket.len() <= RUN || rung == 0 {
                self.base = lowest | ((1 << (rung as u32 * BITS)) - 1);
                bucket.append_to(&mut self.run);
                let all = self.run.len();
                sift(&mut self.run, &mut update);
                self.len -= all - self.run.len();
                self.run.sort_unstable();
                self.put_off();
            } else {
                self.base = lowest;
                for mut block in bucket.take() {
                    let all = block.len();
                    sift(&mut block, &mut update);
                    self.len -= all - block.len();
                    for entry in block {
                        let tick = entry.when.ticks(self.origin.unwrap_or(entry.when));
                        if tick > lowest {
                            self.place(tick, entry);
                        } else {
                            self.run.push(entry);
                        }
                    }
                }
                self.run.sort_unstable();
            }
        }
    }

    /// Entries that were put off beyond `base` go from the run to where they belong now.
    fn put_off(&mut self) {
        let base = self.base;
        let origin = self.origin;
        let tick = |entry: &Entry<W>| entry.when.ticks(origin.unwrap_or(entry.when));
        let later = self.run.partition_point(|entry| tick(entry) > base);
        for entry in self.run.drain(..later).collect::<Vec<_>>() {
            match tick(&entry) {
                tick if tick > base => _ = self.place(tick, entry),
                // Of a `Deadline` whose ticks do not follow its order.
                _ => self.early.push(entry),
            }
        }
    }

    /// Many entries came in before `base`: it ran ahead of them, to a deadline far away that was
    /// looked at. Moves it back to the earliest. O(n), paid for by the n / 2 entries that came.
    fn step_back(&mut self) {
        self.settle();
        let (origin, first) = match (self.origin, self.early.peek()) {
            (Some(origin), Some(first)) => (origin, first),
            _ => return,
        };
        let first = first.when.ticks(origin);
        let all = self.take();
        self.base = first;
        for entry in all {
            let tick = entry.when.ticks(origin);
            self.len += 1;
            if tick > first {
                self.place(tick, entry);
            } else {
                self.early.push(entry);
            }
        }
    }

    /// Drops the entries that `keep` refuses.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut Entry<W>) -> bool) {
        self.retain_near(&mut keep);
        self.len = self.run.len() + self.early.len();
        for (bucket, index) in self.buckets.iter_mut().zip(0..) {
            if !bucket.is_empty() {
                bucket.retain(&mut keep);
                self.len += bucket.len();
                if bucket.is_empty() {
                    self.occupied[index / DIGITS] &= !(1 << (index % DIGITS));
                }
            }
        }
    }

    /// Drops the entries that `keep` refuses from the next block, or in their turn from `run` and
    /// `early`. How many entries it looked at. An entry that moves is met all the same when the
    /// sweep comes round again, or dropped by `first`.
    pub(crate) fn sweep(&mut self, mut keep: impl FnMut(&mut Entry<W>) -> bool) -> usize {
        while let Some(bucket) = self.buckets.get_mut(self.cursor.0) {
            let before = bucket.len();
            match bucket.retain_block(self.cursor.1, &mut keep) {
                Some(0) | None => self.cursor = (self.cursor.0 + 1, 0),
                Some(seen) => {
                    self.cursor.1 += 1;
                    self.len -= before - bucket.len();
                    if bucket.is_empty() {
                        let (rung, digit) = (self.cursor.0 / DIGITS, self.cursor.0 % DIGITS);
                        self.occupied[rung] &= !(1 << digit);
                    }
                    return seen;
                }
            }
        }
        self.cursor = (0, 0);
        self.retain_near(keep)
    }

    fn retain_near(&mut self, mut keep: impl FnMut(&mut Entry<W>) -> bool) -> usize {
        self.settle();
        let seen = self.run.len() + self.early.len();
        let mut early = mem::take(&mut self.early).into_vec();
        sift(&mut early, &mut keep);
        self.early = early.into();
        sift(&mut self.run, &mut keep);
        self.len -= seen - (self.run.len() + self.early.len());
        seen
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.run.shrink_to_fit();
        self.early.shrink_to_fit();
        self.buckets.iter_mut().for_each(Bucket::shrink_to_fit);
    }

    /// Empties the ladder. In no particular order.
    pub(crate) fn take(&mut self) -> vec::IntoIter<Entry<W>> {
        self.settle();
        let mut all = mem::take(&mut self.early).into_vec();
        all.append(&mut self.run);
        self.buckets.iter_mut().for_each(|bucket| bucket.append_to(&mut all));
        self.occupied = [0; RUNGS];
        self.overtaken = 0;
        self.len = 0;
        all.into_iter()
    }
}

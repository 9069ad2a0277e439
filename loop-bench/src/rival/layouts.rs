//! Layouts for the queue of a lazy timer store: the standard library's heap, and two that
//! `loop-timer` could have had instead of its ladder.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::lazy::{Entry, Queue};

/// What one writes with the standard library alone.
#[derive(Default)]
pub(crate) struct Binary(BinaryHeap<Reverse<Entry>>);

impl Queue for Binary {
    const NAME: &'static str = "std/binaryheap";

    fn push(&mut self, entry: Entry) {
        self.0.push(Reverse(entry));
    }

    fn first(&mut self) -> Option<Entry> {
        self.0.peek().map(|entry| entry.0)
    }

    fn pop(&mut self) {
        self.0.pop();
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) {
        let mut entries = std::mem::take(&mut self.0).into_vec();
        entries.retain(|entry| keep(&entry.0));
        self.0 = entries.into();
    }
}

/// A heap with four children a node, which fill one cache line: half the levels, and little more
/// to compare.
#[derive(Default)]
pub(crate) struct FourAry(Vec<Entry>);

impl FourAry {
    fn sink(&mut self, mut at: usize) {
        let entry = self.0[at];
        loop {
            let first = 4 * at + 1;
            let children = first..self.0.len().min(first + 4);
            let Some(least) = children.min_by_key(|&child| self.0[child]) else { break };
            if self.0[least] >= entry {
                break;
            }
            self.0[at] = self.0[least];
            at = least;
        }
        self.0[at] = entry;
    }
}

impl Queue for FourAry {
    const NAME: &'static str = "layout/4-ary";

    fn push(&mut self, entry: Entry) {
        let mut at = self.0.len();
        self.0.push(entry);
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.0[parent] <= entry {
                break;
            }
            self.0[at] = self.0[parent];
            at = parent;
        }
        self.0[at] = entry;
    }

    fn first(&mut self) -> Option<Entry> {
        self.0.first().copied()
    }

    fn pop(&mut self) {
        self.0.swap_remove(0);
        if !self.0.is_empty() {
            self.sink(0);
        }
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.0.retain(keep);
        for at in (0..self.0.len().div_ceil(4)).rev() {
            self.sink(at);
        }
    }
}

/// Sorted runs beside a small heap: what is not before the end of the last run is appended to it,
/// the rest goes to the heap, which becomes a run when it is full. Runs of like size are merged.
#[derive(Default)]
pub(crate) struct SortedRuns {
    runs: Vec<VecDeque<Entry>>,
    heap: BinaryHeap<Reverse<Entry>>,
    len: usize,
    /// Where the earliest entry is, if it is known: a run, or the heap beyond the last run.
    first: Option<usize>,
}

impl SortedRuns {
    const HEAP: usize = 512;

    fn head(&self, run: usize) -> Option<Entry> {
        match self.runs.get(run) {
            Some(run) => run.front().copied(),
            None => self.heap.peek().map(|entry| entry.0),
        }
    }

    fn flush(&mut self) {
        let mut fresh: VecDeque<Entry> = std::mem::take(&mut self.heap)
            .into_sorted_vec()
            .into_iter()
            .rev()
            .map(|entry| entry.0)
            .collect();
        while self.runs.last().is_some_and(|run| run.len() <= 2 * fresh.len()) {
            let old = self.runs.pop().unwrap_or_default();
            let mut merged = VecDeque::with_capacity(old.len() + fresh.len());
            let (mut old, mut new) = (old.into_iter().peekable(), fresh.into_iter().peekable());
            while let (Some(a), Some(b)) = (old.peek(), new.peek()) {
                merged.extend(if a < b { old.next() } else { new.next() });
            }
            merged.extend(old.chain(new));
            fresh = merged;
        }
        self.runs.push(fresh);
    }
}

impl Queue for SortedRuns {
    const NAME: &'static str = "layout/sorted-runs";

    fn push(&mut self, entry: Entry) {
        self.len += 1;
        self.first = None;
        match self.runs.last_mut() {
            Some(run) if run.back().is_some_and(|last| *last <= entry) => run.push_back(entry),
            _ => self.heap.push(Reverse(entry)),
        }
        if self.heap.len() > Self::HEAP {
            self.flush();
        }
    }

    fn first(&mut self) -> Option<Entry> {
        if self.first.is_none() {
            self.runs.retain(|run| !run.is_empty());
            let heads = (0..=self.runs.len()).filter_map(|run| Some((self.head(run)?, run)));
            self.first = heads.min().map(|(_, run)| run);
        }
        self.head(self.first?)
    }

    fn pop(&mut self) {
        let Some(first) = self.first.take() else { return };
        self.len -= 1;
        match self.runs.get_mut(first) {
            Some(run) => _ = run.pop_front(),
            None => _ = self.heap.pop(),
        }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn retain(&mut self, mut keep: impl FnMut(&Entry) -> bool) {
        self.first = None;
        self.heap.retain(|entry| keep(&entry.0));
        self.runs.iter_mut().for_each(|run| run.retain(&mut keep));
        self.len = self.heap.len() + self.runs.iter().map(VecDeque::len).sum::<usize>();
    }
}

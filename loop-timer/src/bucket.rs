//! `Bucket`: entries in no order, in blocks, so that a large one neither moves nor wastes memory.

use alloc::vec::Vec;
use core::mem;

use crate::entry::Entry;

/// Entries in a full block: 4 KiB of them where a deadline takes eight bytes.
const BLOCK: usize = 256;

pub(crate) struct Bucket<W> {
    /// The block that is being filled. Grows by doubling until it has its full size.
    tail: Vec<Entry<W>>,
    /// Blocks that were filled before.
    full: Vec<Vec<Entry<W>>>,
}

impl<W: Copy> Bucket<W> {
    pub(crate) fn new() -> Bucket<W> {
        Bucket { tail: Vec::new(), full: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.tail.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.full.is_empty()
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry<W>) {
        if self.tail.len() == self.tail.capacity() {
            self.grow();
        }
        self.tail.push(entry);
    }

    /// Takes the last entry out if it is the slot's.
    pub(crate) fn pop_if(&mut self, slot: u32) -> bool {
        let last = matches!(self.tail.last(), Some(entry) if entry.slot == slot);
        self.tail.truncate(self.tail.len() - usize::from(last));
        last
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        if self.tail.len() < BLOCK {
            self.tail.reserve_exact(self.tail.len().max(4));
        } else {
            self.full.push(mem::replace(&mut self.tail, Vec::with_capacity(BLOCK)));
        }
    }

    /// Moves all entries to `to`. Keeps the memory of a small bucket for the next time.
    pub(crate) fn append_to(&mut self, to: &mut Vec<Entry<W>>) {
        to.append(&mut self.tail);
        for mut block in mem::take(&mut self.full) {
            to.append(&mut block);
        }
    }

    /// Takes all entries out, in blocks.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Vec<Entry<W>>> {
        let tail = mem::take(&mut self.tail);
        mem::take(&mut self.full).into_iter().chain(Some(tail))
    }

    /// Drops the entries that `keep` refuses. Neighbours that fit in one block are joined.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut Entry<W>) -> bool) {
        sift(&mut self.tail, &mut keep);
        for mut block in mem::take(&mut self.full) {
            sift(&mut block, &mut keep);
            if self.tail.len() + block.len() <= BLOCK {
                self.tail.append(&mut block);
            } else {
                self.full.push(mem::replace(&mut self.tail, block));
            }
        }
    }

    /// The same for one block: the full ones are numbered from 0, and the last is the tail. How
    /// many entries it looked at, or `None` if there is no such block.
    pub(crate) fn retain_block(
        &mut self,
        index: usize,
        keep: impl FnMut(&mut Entry<W>) -> bool,
    ) -> Option<usize> {
        let full = self.full.len();
        if index > full {
            return None;
        }
        let block = self.full.get_mut(index).unwrap_or(&mut self.tail);
        let seen = block.len();
        sift(block, keep);
        if 0 < index && index < full && self.full[index - 1].len() + self.full[index].len() <= BLOCK
        {
            let mut joined = mem::take(&mut self.full[index]);
            self.full[index - 1].append(&mut joined);
            self.full.swap_remove(index);
        }
        Some(seen)
    }

    pub(crate) fn shrink_to_fit(&mut self) {
        self.tail.shrink_to_fit();
        self.full.shrink_to_fit();
    }
}

/// `Vec::retain` without a branch: whether an entry is live takes a look at a distant place in
/// memory, and many of those looks can be under way at once if none decides where to go next.
/// `keep` may change what it keeps.
pub(crate) fn sift<W: Copy>(
    entries: &mut Vec<Entry<W>>,
    mut keep: impl FnMut(&mut Entry<W>) -> bool,
) {
    let mut kept = 0;
    for index in 0..entries.len() {
        let mut entry = entries[index];
        let live = keep(&mut entry);
        entries[kept] = entry;
        kept += usize::from(live);
    }
    entries.truncate(kept);
}

//! Bytes that came in and were not read yet.

/// An idle stream keeps no more memory than this for what comes next.
const KEEP: usize = 4096;

/// So much it keeps in a form that can be received into, once less than that was copied out of it.
pub(super) const ROOM: usize = 1024;

/// A byte queue in one allocation. Appending and taking are linear in the bytes moved, amortised.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// What is unread lies in here. The rest may be written over.
    bytes: Vec<u8>,
    /// Where the unread bytes begin.
    start: usize,
    /// And where they end.
    end: usize,
}

impl Buffer {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    #[inline]
    pub(crate) fn push(&mut self, data: &[u8]) {
        self.bytes.truncate(self.end);
        if self.start == 0 && data.len() <= self.bytes.capacity() - self.end {
            self.bytes.extend_from_slice(data);
        } else {
            self.make_room(data);
        }
        self.end = self.bytes.len();
    }

    #[inline(never)]
    fn make_room(&mut self, data: &[u8]) {
        // Moves the rest to the front once that frees at least as much as it moves.
        if self.start > 0 && self.start >= self.len() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.capacity() == 0 {
            // Exactly as much as there is: one that is taken whole is the user's.
            self.bytes = data.to_vec();
        } else {
            self.bytes.extend_from_slice(data);
        }
    }

    /// Where bytes can be received if nothing is unread; empty if there is no such room.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.end == 0 { &mut self.bytes } else { &mut [] }
    }

    /// So many were received there.
    #[inline]
    pub(crate) fn fill(&mut self, count: usize) {
        self.end = count;
        debug_assert!(self.end <= self.bytes.len(), "more than there was room for");
    }

    /// Puts bytes that were taken out in front again. Linear in what came meanwhile.
    pub(crate) fn put_back(&mut self, mut taken: Buffer) {
        taken.push(self.as_slice());
        *self = taken;
    }

    /// Forgets the first `count` bytes.
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        debug_assert!(self.start <= self.end, "more consumed than there was");
        if self.is_empty() {
            if self.end >= ROOM || self.bytes.len() != ROOM {
                self.keep();
            }
            (self.start, self.end) = (0, 0);
        }
    }

    /// Keeps some memory for what comes next, to receive into if that is likely to be as little as it was.
    #[inline(never)]
    fn keep(&mut self) {
        if self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
        }
        let room = if self.end < ROOM { ROOM } else { 0 };
        self.bytes.clear();
        self.bytes.resize(room, 0);
    }

    /// Moves the first bytes, at most `max`, by `copy`, which is called if there are any; how many.
    #[inline]
    pub(crate) fn copy_out(&mut self, max: usize, copy: impl FnOnce(&[u8])) -> usize {
        if self.is_empty() {
            return 0;
        }
        let bytes = self.as_slice();
        let count = bytes.len().min(max);
        copy(&bytes[..count]);
        self.consume(count);
        count
    }

    /// The first `count` bytes, in a vector of their own. All of them cost no copy.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        if self.start == 0 && count == self.end {
            let mut bytes = std::mem::take(self).bytes;
            bytes.truncate(count);
            return bytes;
        }
        let taken = self.as_slice()[..count].to_vec();
        self.consume(count);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came() {
        let mut buffer = Buffer::default();
        let (mut written, mut read) = (0u32, 0u32);
        for round in 0..1_000usize {
            let chunk: Vec<u8> = (0..round % 37).map(|i| (written + i as u32) as u8).collect();
            written += chunk.len() as u32;
            buffer.push(&chunk);
            let count = (round * 7 % 41).min(buffer.len());
            for byte in buffer.take(count) {
                assert_eq!(byte, read as u8);
                read += 1;
            }
            assert_eq!(buffer.len(), (written - read) as usize);
        }
    }

    /// How many bytes are moved when so many come in chunks and leave in pieces of 64, with some always
    /// left.
    fn moved(total: usize, chunk: usize) -> usize {
        let (mut buffer, data, mut moved, mut read) = (Buffer::default(), vec![1; chunk], 0, 0);
        for _ in 0..total / chunk {
            let (start, len, capacity) = (buffer.start, buffer.len(), buffer.bytes.capacity());
            buffer.push(&data);
            let compacted = start > 0 && buffer.start == 0;
            let grown = capacity > 0 && buffer.bytes.capacity() != capacity;
            moved += len * (usize::from(compacted) + usize::from(grown)) + chunk;
            while buffer.len() > 1_000 {
                buffer.consume(64);
                read += 64;
            }
        }
        assert_eq!(read + buffer.len(), total);
        moved
    }

    #[test]
    fn small_reads_of_much_move_each_byte_a_fixed_number_of_times() {
        for chunk in [1_024, 65_536, 262_144] {
            let (some, more) = (moved(1 << 20, chunk), moved(8 << 20, chunk));
            assert!(more <= 3 * (8 << 20), "chunks of {chunk}: {more}");
            assert!(more <= 9 * some, "chunks of {chunk}: {some}, then {more}");
        }
    }

    #[test]
    fn little_that_is_copied_out_leaves_room_to_receive_into_and_much_leaves_none() {
        let mut buffer = Buffer::default();
        let copied = |buffer: &mut Buffer| {
            let mut copy = Vec::new();
            buffer.copy_out(usize::MAX, |bytes| copy.extend_from_slice(bytes));
            copy
        };
        buffer.push(b"one");
        assert!(buffer.room().is_empty());
        assert_eq!(copied(&mut buffer), b"one");
        assert_eq!(buffer.room().len(), ROOM);
        buffer.room()[..3].copy_from_slice(b"two");
        buffer.fill(3);
        assert!(buffer.room().is_empty(), "something is unread");
        buffer.push(b"three");
        assert_eq!(copied(&mut buffer), b"twothree");
        assert_eq!(buffer.room().len(), ROOM);
        buffer.push(&[1; 2 * KEEP]);
        assert_eq!(copied(&mut buffer), [1; 2 * KEEP]);
        assert_eq!((buffer.room().len(), buffer.bytes.capacity()), (0, 0));
        // What is taken whole is its reader's, with the memory.
        buffer.push(b"four");
        copied(&mut buffer);
        buffer.room()[0] = 5;
        buffer.fill(1);
        assert_eq!(buffer.take(1), [5]);
        assert!(buffer.room().is_empty() && buffer.is_empty());
    }
}

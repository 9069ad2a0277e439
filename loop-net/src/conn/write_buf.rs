//! Bytes that the socket has not taken yet.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::socket::MAX_PIECES;

/// Small writes share pieces of this size, so that many of them go out in one call.
const PIECE: usize = 64 * 1024;

/// Memory of at most this size serves again.
const SPARE: usize = 4096;

/// A byte queue, one pointer long while it is empty. Every byte is copied once; taking is linear in the
/// bytes taken, whatever the sizes of the writes were (S30 of the public cases).
#[derive(Debug, Default)]
pub(crate) struct WriteBuf(Option<Box<Queue>>);

/// Pieces with a running byte count, which is not zero.
#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are sent already.
    sent: usize,
    len: usize,
}

impl WriteBuf {
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
        if !data.is_empty() {
            self.0.get_or_insert_default().push(data);
        }
    }

    /// As [`push`](Self::push), with memory that may serve again.
    pub(crate) fn push_into(&mut self, spare: Option<Spare>, data: &[u8]) {
        if let (None, Some(Spare(queue))) = (&self.0, spare) {
            self.0 = Some(queue);
        }
        self.push(data);
    }

    /// The first bytes, at most `max` of them.
    #[cfg(feature = "tls")]
    pub(crate) fn first(&self, max: usize) -> &[u8] {
        let Some(queue) = &self.0 else { return &[] };
        let first = queue.pieces.front().map_or(&[][..], |piece| &piece[queue.sent..]);
        &first[..first.len().min(max)]
    }

    /// The first pieces, as many as one call takes.
    pub(crate) fn slices<'a>(&'a self, into: &mut [IoSlice<'a>; MAX_PIECES]) -> usize {
        let Some(queue) = &self.0 else { return 0 };
        let mut count = 0;
        for (slot, piece) in into.iter_mut().zip(&queue.pieces) {
            let skip = if count == 0 { queue.sent } else { 0 };
            *slot = IoSlice::new(&piece[skip..]);
            count += 1;
        }
        count
    }

    /// Forgets exactly `count` bytes, also in the middle of a piece (B-TRN-10). Gives back the memory of an empty
    /// queue, if that may serve again: an idle connection keeps none for what it once could not send.
    pub(crate) fn consume(&mut self, count: usize) -> Option<Spare> {
        debug_assert!(count <= self.len(), "more sent than there was");
        if count == self.len() {
            return self.0.take().and_then(Queue::spare);
        }
        if let Some(queue) = &mut self.0 {
            queue.consume(count);
        }
        None
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

/// The memory of a queue that is empty: for [`WriteBuf::push_into`].
#[derive(Debug)]
pub(crate) struct Spare(Box<Queue>);

impl Queue {
    fn spare(mut self: Box<Self>) -> Option<Spare> {
        (self.sent, self.len) = (0, 0);
        let [piece] = self.pieces.make_contiguous() else { return None };
        piece.clear();
        (piece.capacity() <= SPARE).then_some(Spare(self))
    }

    fn push(&mut self, mut data: &[u8]) {
        self.len += data.len();
        if let Some(last) = self.pieces.back_mut() {
            let room = (PIECE.saturating_sub(last.len())).min(data.len());
            last.extend_from_slice(&data[..room]);
            data = &data[room..];
        }
        if !data.is_empty() {
            self.pieces.push_back(data.to_vec());
        }
    }

    /// Forgets fewer bytes than there are.
    fn consume(&mut self, mut count: usize) {
        self.len -= count;
        while let Some(first) = self.pieces.front() {
            let rest = first.len() - self.sent;
            if count < rest {
                self.sent += count;
                return;
            }
            count -= rest;
            self.sent = 0;
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(buf: &WriteBuf) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); MAX_PIECES];
        let count = buf.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    #[test]
    fn consuming_in_the_middle_of_a_piece_drops_exactly_that() {
        let mut buf = WriteBuf::default();
        buf.push(b"hello ");
        buf.push(b"world");
        assert_eq!(buf.len(), 11);
        buf.consume(3);
        assert_eq!(contents(&buf), b"lo world");
        buf.push(b"!");
        buf.consume(8);
        assert_eq!(contents(&buf), b"!");
        buf.consume(1);
        assert!(buf.is_empty());
        assert_eq!(contents(&buf), b"");
    }

    #[test]
    fn the_memory_of_little_serves_again_and_that_of_much_does_not() {
        let mut buf = WriteBuf::default();
        buf.push(b"one");
        assert!(buf.consume(2).is_none());
        let spare = buf.consume(1);
        assert!(spare.is_some() && buf.is_empty());
        buf.push_into(spare, b"two");
        assert_eq!((contents(&buf), buf.len()), (b"two".to_vec(), 3));
        buf.push(&[1; 2 * SPARE]);
        assert!(buf.consume(buf.len()).is_none());
        buf.push_into(None, b"three");
        assert_eq!(contents(&buf), b"three");
    }

    #[test]
    fn random_pushes_and_takes_keep_every_byte_in_order() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed % below as u64) as usize
        };
        let (mut buf, mut expected, mut next) = (WriteBuf::default(), VecDeque::new(), 0u8);
        for _ in 0..2_000 {
            let size = random(40_000);
            let data: Vec<u8> = (0..size).map(|i| next.wrapping_add(i as u8)).collect();
            next = next.wrapping_add(size as u8);
            buf.push(&data);
            expected.extend(data);
            let mut slices = [IoSlice::new(&[]); MAX_PIECES];
            let count = buf.slices(&mut slices);
            let offered: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            let take = random(offered.min(60_000) + 1);
            let seen: Vec<u8> =
                slices[..count].iter().flat_map(|s| s.iter().copied()).take(take).collect();
            assert!(expected.drain(..take).eq(seen));
            buf.consume(take);
            assert_eq!(buf.len(), expected.len());
        }
    }
}

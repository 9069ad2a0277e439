//! Datagrams that the socket has not taken yet.

use std::collections::VecDeque;

use crate::sock_addr::SockAddr;

/// What each queued datagram counts for beside its bytes, so that empty ones fill the queue too
/// (B-UDP-07).
const OVERHEAD: usize = 8;

/// A queue of datagrams with a running size.
#[derive(Debug, Default)]
pub(super) struct Queue {
    datagrams: VecDeque<(Vec<u8>, Option<SockAddr>)>,
    size: usize,
}

impl Queue {
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    pub(super) fn push(&mut self, data: &[u8], to: Option<SockAddr>) {
        self.size += data.len() + OVERHEAD;
        self.datagrams.push_back((data.to_vec(), to));
    }

    pub(super) fn first(&self) -> Option<(&[u8], Option<&SockAddr>)> {
        self.datagrams.front().map(|(data, to)| (&data[..], to.as_ref()))
    }

    pub(super) fn pop(&mut self) {
        if let Some((data, _)) = self.datagrams.pop_front() {
            self.size -= data.len() + OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_udp_07_empty_datagrams_count_and_the_size_returns_to_zero() {
        let mut queue = Queue::default();
        queue.push(b"", None);
        queue.push(b"four", Some(SockAddr::Unnamed));
        assert_eq!(queue.size(), 4 + 2 * OVERHEAD);
        assert_eq!(queue.first(), Some((&b""[..], None)));
        queue.pop();
        assert_eq!(queue.first(), Some((&b"four"[..], Some(&SockAddr::Unnamed))));
        queue.pop();
        queue.pop();
        assert!(queue.is_empty() && queue.size() == 0);
    }
}

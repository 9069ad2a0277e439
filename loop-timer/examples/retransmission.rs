//! The timers of a protocol without input and output: it is told the time in ticks, and what came
//! in; it says what to send, and when it wants to be asked again.
//!
//! `cargo run -p loop-timer --example retransmission`

use loop_timer::{TimerHeap, TimerKey};

const FIRST_TIMEOUT: u64 = 200;
const ATTEMPTS: u32 = 3;

struct Packet {
    sequence: usize,
    attempts: u32,
}

#[derive(Debug, PartialEq)]
enum Output {
    Send(usize),
    GiveUp(usize),
}

#[derive(Default)]
struct Sender {
    timers: TimerHeap<Packet>,
    /// The timer of each packet that is not acknowledged, by sequence number.
    unacknowledged: Vec<Option<TimerKey>>,
}

impl Sender {
    fn send(&mut self, now: u64) -> Output {
        let sequence = self.unacknowledged.len();
        let key = self.timers.insert(now + FIRST_TIMEOUT, Packet { sequence, attempts: 1 });
        self.unacknowledged.push(Some(key));
        Output::Send(sequence)
    }

    /// Most timers end here: cancelled, long before they are due.
    fn acknowledge(&mut self, sequence: usize) {
        let key = self.unacknowledged.get_mut(sequence).and_then(Option::take);
        // An acknowledgement that comes twice, or too late, finds a key that is gone or stale.
        key.and_then(|key| self.timers.cancel(key));
    }

    /// When to call `poll`.
    fn deadline(&mut self) -> Option<u64> {
        self.timers.next_deadline()
    }

    fn poll(&mut self, now: u64) -> Option<Output> {
        let (_, _, mut packet) = self.timers.pop_due(now)?;
        let sequence = packet.sequence;
        if packet.attempts == ATTEMPTS {
            self.unacknowledged[sequence] = None;
            return Some(Output::GiveUp(sequence));
        }
        let timeout = FIRST_TIMEOUT << packet.attempts;
        packet.attempts += 1;
        self.unacknowledged[sequence] = Some(self.timers.insert(now + timeout, packet));
        Some(Output::Send(sequence))
    }
}

fn main() {
    let mut sender = Sender::default();
    assert_eq!(sender.send(0), Output::Send(0));
    assert_eq!(sender.send(10), Output::Send(1));
    sender.acknowledge(0);
    sender.acknowledge(0);

    assert_eq!(sender.deadline(), Some(210));
    assert_eq!(sender.poll(209), None);
    assert_eq!(sender.poll(210), Some(Output::Send(1)));
    assert_eq!(sender.deadline(), Some(610), "twice as long");
    assert_eq!(sender.poll(610), Some(Output::Send(1)));
    assert_eq!(sender.poll(1410), Some(Output::GiveUp(1)));
    assert_eq!(sender.deadline(), None);
    println!("packet 0 was acknowledged, packet 1 was given up");
}

#[test]
fn packets_are_retransmitted() {
    main();
}

//! What is done with a selector, and whether it did it right.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::pin::pin_peer;
use crate::rival::hub::Tally;
use crate::rival::waiting::{Ready, Waiting};
use crate::rng::Rng;
use crate::sample::{Lap, Wrong};

const NOW: Option<Duration> = Some(Duration::ZERO);

/// Sockets connected in pairs. Both ends are watched, so that there are no more descriptors than
/// sources: writing to one end makes the other readable, and nothing else.
pub(super) struct Sources(Vec<Rc<UnixStream>>);

impl Sources {
    /// `n` of them, which is even.
    pub(super) fn new(n: usize) -> io::Result<Self> {
        let mut sources = Vec::with_capacity(n);
        for _ in 0..n / 2 {
            let (one, other) = UnixStream::pair()?;
            one.set_nonblocking(true)?;
            other.set_nonblocking(true)?;
            sources.extend([Rc::new(one), Rc::new(other)]);
        }
        Ok(Self(sources))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn add_to(&self, selector: &mut dyn Waiting) -> io::Result<()> {
        self.0.iter().enumerate().try_for_each(|(number, source)| selector.add(source, number))
    }

    fn remove_from(&self, selector: &mut dyn Waiting) -> io::Result<()> {
        self.0.iter().enumerate().try_for_each(|(number, source)| selector.remove(source, number))
    }

    /// Gives a source one byte to read.
    fn feed(&self, number: usize) -> io::Result<()> {
        (&*self.0[number ^ 1]).write_all(&[number as u8])
    }

    /// Reads it again; if it must be known to be empty, until it says so.
    fn drain(&self, number: usize, until_empty: bool) -> Result<(), Wrong> {
        let (mut source, mut bytes) = (&*self.0[number], [0; 8]);
        let read = source.read(&mut bytes)?;
        Wrong::unless_equal("the bytes of a source", &bytes[..read], &[number as u8])?;
        if until_empty {
            let end = source.read(&mut bytes).map_err(|error| error.kind());
            Wrong::unless_equal("the end of a source", end, Err(io::ErrorKind::WouldBlock))?;
        }
        Ok(())
    }
}

/// What is to be told of a source with something to read, of which nobody asked whether it takes
/// more.
fn readable(number: usize) -> Ready {
    Ready { number, reads: true, writes: false }
}

/// What is done in a round of waits.
#[derive(Clone, Copy)]
pub(super) struct Waits {
    /// How many sources are readable each time.
    pub(super) ready: usize,
    pub(super) count: u64,
    /// Whether the reads are timed too, which a selector can make more or fewer.
    pub(super) with_reads: bool,
}

/// Makes some sources readable, waits, reads what made them so, again and again. Each wait must
/// tell of exactly those sources.
pub(super) fn wait(
    selector: &mut dyn Waiting,
    sources: &Sources,
    waits: Waits,
    seed: u64,
) -> Result<Lap, Wrong> {
    let Waits { ready, count, with_reads } = waits;
    let (n, until_empty) = (sources.len(), selector.is_edge_triggered());
    sources.add_to(selector)?;
    let mut rng = Rng::new(seed);
    let mut total = Lap::default();
    let (mut told, mut expected) = (Vec::with_capacity(ready), Vec::with_capacity(ready));
    for round in 0..count + 2 {
        let first = rng.below(n as u64) as usize;
        expected.clear();
        expected.extend((0..ready).map(|index| readable((first + index * (n / ready)) % n)));
        expected.iter().try_for_each(|source| sources.feed(source.number))?;
        told.clear();
        let start = Instant::now();
        selector.wait(None, &mut told)?;
        let waited = start.elapsed();
        told.iter().try_for_each(|source| sources.drain(source.number, until_empty))?;
        let elapsed = if with_reads { start.elapsed() } else { waited };
        // Buffers have grown and registrations have reached the kernel after the first two.
        if round >= 2 {
            total = total.plus(Lap { elapsed, ops: 1 });
        }
        told.sort_unstable_by_key(|source| source.number);
        expected.sort_unstable_by_key(|source| source.number);
        Wrong::unless_equal("ready sources", &told, &expected)?;
    }
    // What was read is not reported again.
    told.clear();
    selector.wait(NOW, &mut told)?;
    Wrong::unless_equal("sources that were read", told.len(), 0)?;
    Ok(total)
}

/// Nothing but waits: the first `ready` sources are readable and stay so. For a profiler. A selector
/// that reports changes alone cannot do this.
pub(super) fn steady(
    selector: &mut dyn Waiting,
    sources: &Sources,
    ready: usize,
    waits: u64,
) -> Result<(), Wrong> {
    sources.add_to(selector)?;
    (0..ready).try_for_each(|number| sources.feed(number))?;
    let mut told = Vec::with_capacity(sources.len());
    for _ in 0..waits {
        told.clear();
        selector.wait(None, &mut told)?;
        Wrong::unless_equal("ready sources", told.len(), ready)?;
    }
    Ok(())
}

/// Registers all sources, looks once, deregisters them, `times` times: the time of a pair of calls.
/// The look is there because a selector may leave to it what a registration costs.
pub(super) fn register(
    selector: &mut dyn Waiting,
    sources: &Sources,
    times: u64,
) -> Result<Lap, Wrong> {
    let n = sources.len();
    let mut told = Vec::new();
    let (lap, done) = Lap::time(times * n as u64, || {
        (0..times).try_for_each(|_| {
            sources.add_to(selector)?;
            selector.wait(NOW, &mut told)?;
            sources.remove_from(selector)
        })
    });
    done?;
    // One is registered; the others must be silent though they are ready too.
    (0..n).try_for_each(|number| sources.feed(number))?;
    selector.add(&sources.0[n / 2], n / 2)?;
    selector.wait(None, &mut told)?;
    (0..n).try_for_each(|number| sources.drain(number, false))?;
    Wrong::unless_equal("ready sources", told, vec![readable(n / 2)])?;
    Ok(lap)
}

/// Watches all for writing too, and then no more, looking once after each: the time of one change.
pub(super) fn modify(
    selector: &mut dyn Waiting,
    sources: &Sources,
    times: u64,
) -> Result<Lap, Wrong> {
    let n = sources.len();
    sources.add_to(selector)?;
    let (mut writable, mut silent) = (Vec::with_capacity(n), Vec::new());
    let mut change = |selector: &mut dyn Waiting, writes| {
        let mut sources = sources.0.iter().enumerate();
        sources.try_for_each(|(number, source)| selector.modify(source, number, writes))?;
        writable.clear();
        selector.wait(NOW, if writes { &mut writable } else { &mut silent })
    };
    let (lap, done) = Lap::time(times * 2 * n as u64, || {
        (0..times).try_for_each(|_| {
            change(selector, true)?;
            change(selector, false)
        })
    });
    done?;
    change(selector, true)?;
    let told = writable.iter().filter(|source| source.writes && !source.reads).count();
    Wrong::unless_equal("writable sources", told, n)?;
    Wrong::unless_equal("sources that nobody asked about", silent.len(), 0)?;
    Ok(lap)
}

/// Wakes from another thread. Parked: one at a time, each waited for, so that the selector sleeps
/// meanwhile: the time of a round trip. Busy: `n` in a row, while the selector looks without
/// sleeping: what one costs the thread that wakes.
pub(super) fn wake(selector: &mut dyn Waiting, busy: bool, n: u64) -> Result<Lap, Wrong> {
    let tally = Tally::new(n);
    let posted = Arc::new(AtomicU64::new(0));
    let wake = selector.waker();
    let sender = thread::spawn({
        let (tally, posted) = (Arc::clone(&tally), Arc::clone(&posted));
        move || {
            pin_peer();
            if !busy {
                tally.watch();
            }
            let start = Instant::now();
            for value in 1..=n {
                posted.store(value, Ordering::Release);
                wake();
                if !busy {
                    tally.wait_for(value);
                }
            }
            start.elapsed()
        }
    });
    let (mut taken, mut told) = (0, Vec::new());
    // No wake takes that long which is not lost.
    let patience = Duration::from_secs(5);
    let start = Instant::now();
    while taken < n {
        let before = Instant::now();
        selector.wait(if busy { NOW } else { Some(patience) }, &mut told)?;
        if before.elapsed() >= patience || start.elapsed() > 12 * patience {
            return Err(Wrong(format!("{taken} of {n} wakes came")));
        }
        while taken < posted.load(Ordering::Acquire) {
            tally.take(taken);
            taken += 1;
        }
    }
    tally.finished()?;
    Wrong::unless_equal("ready sources", told.len(), 0)?;
    let elapsed = sender.join().map_err(|_panic| Wrong("the sender failed".into()))?;
    Ok(Lap { elapsed, ops: n })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rival::loop_selector;
    use crate::rival::waiting::Wake;

    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        LosesEvents,
        NeverForgets,
        NeverChanges,
        LosesWakes,
    }

    struct Faulty {
        sound: Box<dyn Waiting>,
        fault: Fault,
    }

    fn faulty(fault: Fault) -> Faulty {
        Faulty { sound: loop_selector::make("poll")().unwrap(), fault }
    }

    impl Waiting for Faulty {
        fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
            match self.sound.add(source, number) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            }
        }

        fn modify(&mut self, source: &Rc<UnixStream>, number: usize, on: bool) -> io::Result<()> {
            if self.fault == Fault::NeverChanges {
                return Ok(());
            }
            self.sound.modify(source, number, on)
        }

        fn remove(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
            if self.fault == Fault::NeverForgets {
                return Ok(());
            }
            self.sound.remove(source, number)
        }

        fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
            self.sound.wait(timeout, ready)?;
            if self.fault == Fault::LosesEvents {
                ready.truncate(ready.len() - ready.len() / 3);
            }
            Ok(())
        }

        fn waker(&self) -> Wake {
            let wake = self.sound.waker();
            let loses = self.fault == Fault::LosesWakes;
            Box::new(move || {
                if !loses {
                    wake()
                }
            })
        }
    }

    #[test]
    fn a_lost_event_a_zombie_and_a_lost_change_are_noticed() {
        let sources = Sources::new(20).unwrap();
        let waits = Waits { ready: 5, count: 50, with_reads: false };
        assert!(wait(&mut faulty(Fault::LosesEvents), &sources, waits, 1).is_err());
        assert!(register(&mut faulty(Fault::NeverForgets), &sources, 1).is_err());
        assert!(modify(&mut faulty(Fault::NeverChanges), &sources, 1).is_err());
    }

    #[test]
    fn a_lost_wake_is_noticed() {
        assert!(wake(&mut faulty(Fault::LosesWakes), false, 1).is_err());
    }
}

//! Selectors alone, without a loop: many socket pairs, few of which have something to read.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use ::loop_selector::available;

use crate::rival::waiting::{Make, Waiting};
use crate::rival::{loop_selector, mio};
use crate::rng::Rng;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

/// Two descriptors each, and 1,024 is all that many systems allow a process.
const MANY: usize = 400;

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let waits = plan.size(2_000, 10_000);
    let mut contests: Vec<Contest> = [(8, 1), (MANY, 1), (MANY, 100)]
        .into_iter()
        .map(|(n, active)| {
            let params = [("n", n as u64), ("active", active as u64)];
            let subjects = subjects(move |make, seed| wait(make()?, n, active, waits, seed));
            Contest::new("select/wait", &params, subjects)
        })
        .collect();
    let times = plan.size(20, 100);
    let subjects = subjects(move |make, _seed| register(make()?, MANY, times));
    contests.push(Contest::new("select/register", &[("n", MANY as u64)], subjects));
    contests
}

/// Every backend that this system has, and mio.
fn makes() -> Vec<(String, Make)> {
    let ours = available().iter().map(|&name| {
        // Names of subjects are for ever, so they are not taken from the crate's name at hand.
        (format!("loop-selector/{name}"), loop_selector::make(name))
    });
    ours.chain([("mio".into(), Box::new(mio::make) as Make)]).collect()
}

fn subjects<F>(round: F) -> Vec<Subject>
where
    F: Fn(&Make, u64) -> Result<Lap, Wrong> + Copy + 'static,
{
    let subject = |(name, make)| Subject::new(name, move |seed| round(&make, seed));
    makes().into_iter().map(subject).collect()
}

/// `n` socket pairs: what is watched, and what makes it ready.
fn pairs(n: usize) -> io::Result<(Vec<Rc<UnixStream>>, Vec<UnixStream>)> {
    let mut pairs = (Vec::with_capacity(n), Vec::with_capacity(n));
    for _ in 0..n {
        let (reader, writer) = UnixStream::pair()?;
        pairs.0.push(Rc::new(reader));
        pairs.1.push(writer);
    }
    Ok(pairs)
}

/// Makes `active` of `n` sources ready, waits, reads what made them ready, `waits` times. Only the
/// waits are timed; each must tell of exactly those sources.
fn wait(
    mut selector: Box<dyn Waiting>,
    n: usize,
    active: usize,
    waits: u64,
    seed: u64,
) -> Result<Lap, Wrong> {
    let (readers, mut writers) = pairs(n)?;
    for (number, reader) in readers.iter().enumerate() {
        selector.add(reader, number)?;
    }
    let mut rng = Rng::new(seed);
    let mut total = Lap::default();
    let mut ready = Vec::with_capacity(active);
    for _ in 0..waits {
        let first = rng.below(n as u64) as usize;
        let mut expected: Vec<usize> =
            (0..active).map(|index| (first + index * (n / active)) % n).collect();
        for &number in &expected {
            writers[number].write_all(&[number as u8])?;
        }
        ready.clear();
        let (lap, waited) = Lap::time(1, || selector.wait(&mut ready));
        waited?;
        total = total.plus(lap);
        for &number in &ready {
            let mut byte = [0; 1];
            (&*readers[number]).read_exact(&mut byte)?;
            Wrong::unless_equal("the byte of a source", byte[0], number as u8)?;
        }
        expected.sort_unstable();
        ready.sort_unstable();
        Wrong::unless_equal("ready sources", &ready, &expected)?;
    }
    Ok(total)
}

/// Registers `n` sources, deregisters them, `times` times: the time of a pair of calls.
fn register(mut selector: Box<dyn Waiting>, n: usize, times: u64) -> Result<Lap, Wrong> {
    let (readers, mut writers) = pairs(n)?;
    let (lap, done) = Lap::time(times * n as u64, || {
        for _ in 0..times {
            for (number, reader) in readers.iter().enumerate() {
                selector.add(reader, number)?;
            }
            for (number, reader) in readers.iter().enumerate() {
                selector.remove(reader, number)?;
            }
        }
        io::Result::Ok(())
    });
    done?;
    // One is registered, the others must be silent though they are ready.
    for writer in &mut writers {
        writer.write_all(b"!")?;
    }
    selector.add(&readers[n / 2], n / 2)?;
    let mut ready = Vec::new();
    selector.wait(&mut ready)?;
    Wrong::unless_equal("ready sources", ready, vec![n / 2])?;
    Ok(lap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_selector_gives_right_answers() {
        for (name, make) in makes() {
            wait(make().unwrap(), 20, 5, 50, 1).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            register(make().unwrap(), 20, 3).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        }
    }

    /// Loses every third event, or else never forgets a source.
    struct Faulty {
        sound: Box<dyn Waiting>,
        loses_events: bool,
    }

    impl Waiting for Faulty {
        fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
            match self.sound.add(source, number) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                other => other,
            }
        }

        fn remove(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
            if self.loses_events { self.sound.remove(source, number) } else { Ok(()) }
        }

        fn wait(&mut self, ready: &mut Vec<usize>) -> io::Result<()> {
            self.sound.wait(ready)?;
            if self.loses_events {
                ready.truncate(ready.len() - ready.len() / 3);
            }
            Ok(())
        }
    }

    #[test]
    fn a_lost_event_and_a_zombie_are_noticed() {
        let sound = || loop_selector::make("poll")().unwrap();
        let loses = Faulty { sound: sound(), loses_events: true };
        assert!(wait(Box::new(loses), 20, 5, 50, 1).is_err());
        let keeps = Faulty { sound: sound(), loses_events: false };
        assert!(register(Box::new(keeps), 20, 1).is_err());
    }
}

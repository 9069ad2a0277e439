//! Waiting before looking.

use std::ops::RangeInclusive;
use std::time::Duration;

use loop_selector::{Event, Token};

/// What a pause may cost each of those who wait for it: about what it costs them to wake a loop that sleeps.
const FAIR: Duration = Duration::from_micros(5);

/// So many waits come without a pause after one that cost them more, and twice as many each time that the next pause
/// costs them more again.
const REST: RangeInclusive<u32> = 16..=1024;

/// Whether to let time pass before the next wait, so that it finds more.
#[derive(Default)]
pub(crate) struct Coalesce {
    pause: Duration,
    /// The last of those that were found before the latest pause, until the next wait tells what that was good for.
    last: Option<Token>,
    /// How long that pause really was.
    took: Duration,
    /// Waits to come without a pause.
    rest: u32,
    /// So many were to come after the latest pause.
    latest_rest: u32,
}

impl Coalesce {
    pub(crate) fn new(pause: Duration) -> Self {
        Coalesce { pause, ..Coalesce::default() }
    }

    /// The pause that is due, if one is, given what the latest wait has found and whether nothing is left to run.
    ///
    /// A lone client that asks and waits for its answer gains nothing from one. Nor do a few: when the last of them that
    /// was answered is back already, so are all others, and they wait for this loop.
    pub(crate) fn due<'a>(
        &mut self,
        found: impl DoubleEndedIterator<Item = &'a Event> + ExactSizeIterator,
        idle: bool,
    ) -> Option<Duration> {
        let count = found.len();
        let mut tokens = found.rev().filter_map(|event| match event {
            Event::Ready { token, .. } => Some(*token),
            _ => None,
        });
        let latest = tokens.next()?;
        if let Some(last) = self.last.take() {
            let fair = self.took <= FAIR * u32::try_from(count).unwrap_or(u32::MAX);
            let all_wait = !fair && (latest == last || tokens.any(|token| token == last));
            self.latest_rest = match all_wait {
                true => (2 * self.latest_rest).clamp(*REST.start(), *REST.end()),
                false => 0,
            };
            self.rest = self.latest_rest;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        let due = count > 1 && idle && !self.pause.is_zero();
        self.last = due.then_some(latest);
        due.then_some(self.pause)
    }

    /// How long a pause was: the system adds what it likes.
    pub(crate) fn took(&mut self, time: Duration) {
        self.took = time;
    }
}

#[cfg(test)]
mod tests {
    use loop_selector::Readiness;

    use super::*;

    const PAUSE: Duration = Duration::from_micros(50);

    fn events(numbers: &[u64]) -> Vec<Event> {
        let event = |number: &u64| Event::Ready {
            token: Token::from_bits(*number),
            readiness: Readiness::READABLE,
        };
        numbers.iter().map(event).collect()
    }

    /// Whether a pause comes after a wait that found these, and nothing is left to run.
    fn pauses(coalesce: &mut Coalesce, found: &[u64]) -> bool {
        let due = coalesce.due(events(found).iter(), true);
        assert!(due.is_none_or(|pause| pause == PAUSE));
        coalesce.took(PAUSE);
        due.is_some()
    }

    #[test]
    fn it_pauses_when_several_were_ready_and_nothing_is_left_to_run() {
        let thousand: Vec<u64> = (0..1_000).collect();
        for (found, idle, due) in [
            (&[1, 2][..], true, true),
            (&thousand, true, true),
            (&[], true, false),
            (&[1], true, false),
            (&[1, 2], false, false),
        ] {
            let mut coalesce = Coalesce::new(PAUSE);
            let pause = coalesce.due(events(found).iter(), idle);
            assert_eq!(pause, due.then_some(PAUSE), "{}, {idle}", found.len());
            assert_eq!(Coalesce::default().due(events(found).iter(), idle), None);
        }
    }

    #[test]
    fn it_rests_ever_longer_while_a_few_wait_for_it() {
        let mut coalesce = Coalesce::new(PAUSE);
        for rest in [16, 32, 64, 128, 256, 512, 1024, 1024] {
            assert!(pauses(&mut coalesce, &[1, 2]));
            for wait in 0..rest {
                assert!(!pauses(&mut coalesce, &[2, 1]), "{wait} of {rest}");
            }
        }
        // The one that was answered last has not asked again: the others are no fewer than they could be.
        assert!(pauses(&mut coalesce, &[1, 2]));
        assert!(pauses(&mut coalesce, &[3, 1]));
        assert!(pauses(&mut coalesce, &[4, 5]));
        for _ in 0..16 {
            assert!(!pauses(&mut coalesce, &[4, 5]));
        }
        assert!(pauses(&mut coalesce, &[4, 5]));
    }

    #[test]
    fn it_goes_on_while_those_who_wait_are_many() {
        let (nine, ten): (Vec<u64>, Vec<u64>) = ((0..9).collect(), (0..10).collect());
        let mut coalesce = Coalesce::new(PAUSE);
        for _ in 0..100 {
            assert!(pauses(&mut coalesce, &ten));
        }
        assert!(pauses(&mut coalesce, &nine), "the tenth is not back");
        assert!(!pauses(&mut coalesce, &nine));
        // It is the pause as it was that counts, and not as it was meant.
        let mut coalesce = Coalesce::new(PAUSE);
        assert!(pauses(&mut coalesce, &ten));
        coalesce.took(2 * PAUSE);
        assert!(!pauses(&mut coalesce, &ten));
    }
}

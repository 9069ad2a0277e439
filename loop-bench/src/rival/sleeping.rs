//! The work of `sleep`, written once for every kind of sleeping future.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::rng::Rng;
use crate::sample::{Lap, Wrong};

/// So far away that it never comes.
const FAR: Duration = Duration::from_secs(3_600);

/// `live` sleeps wait. `steps` times: with a seed, one of them drawn at random is dropped and a new one
/// takes its place; without, each new one takes the place of the one before. Each is polled, so that its
/// timer is registered.
pub(crate) async fn steps<S: Future<Output = ()>>(
    sleep: impl Fn(Duration) -> S,
    live: u64,
    steps: u64,
    seed: Option<u64>,
) -> Result<Lap, Wrong> {
    let mut early = 0;
    let mut sleeping: Vec<Pin<Box<S>>> = Vec::new();
    for n in 0..live {
        let mut new = Box::pin(sleep(FAR + Duration::from_micros(n)));
        early += u64::from(is_over(new.as_mut()).await);
        sleeping.push(new);
    }
    // tokio makes a system call for each new timer until it has waited once.
    sleep(Duration::from_millis(1)).await;
    let mut rng = seed.map(Rng::new);
    let mut fresh = Box::pin(sleep(FAR));
    let start = std::time::Instant::now();
    for n in 0..steps {
        let new = sleep(FAR + Duration::from_nanos(n));
        let place = match &mut rng {
            Some(rng) => &mut sleeping[rng.below(live) as usize],
            None => &mut fresh,
        };
        place.set(new);
        early += u64::from(is_over(place.as_mut()).await);
    }
    let lap = Lap { elapsed: start.elapsed(), ops: steps };
    Wrong::unless_equal("sleeps that were over at once", early, 0)?;
    Ok(lap)
}

async fn is_over(mut sleep: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await
}

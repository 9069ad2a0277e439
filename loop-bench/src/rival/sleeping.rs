//! The work of `sleep`, written once for every kind of sleeping future.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::rng::Rng;
use crate::sample::{Lap, Wrong};

/// So far away that it never comes.
const FAR: Duration = Duration::from_secs(3_600);

/// `live` sleeps wait. `steps` times: with a seed, one of them drawn at random is dropped and a new one
/// takes its place; without, each new one takes the place of the one before. Each is polled, so that it
/// begins.
pub(crate) async fn steps<S: Future<Output = ()>>(
    sleep: impl Fn(Duration) -> S,
    live: u64,
    steps: u64,
    seed: Option<u64>,
) -> Result<Lap, Wrong> {
    let (mut sleeping, mut early) = begin(&sleep, live).await;
    let mut rng = seed.map(Rng::new);
    let mut fresh = Box::pin(sleep(FAR));
    let start = Instant::now();
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

/// `live` sleeps wait, and so many tasks begin a sleep each, give way, and drop it, `steps` times in all.
/// `spawn` runs [`rounds`] of it in a task.
pub(crate) async fn outlast_a_step<S: Future<Output = ()>, T: Future<Output = u64>>(
    sleep: impl Fn(Duration) -> S,
    spawn: impl Fn(u64) -> T,
    live: u64,
    steps: u64,
) -> Result<Lap, Wrong> {
    const TASKS: u64 = 100;
    let (sleeping, mut early) = begin(&sleep, live).await;
    let start = Instant::now();
    let tasks: Vec<T> = (0..TASKS).map(|_| spawn(steps / TASKS)).collect();
    for task in tasks {
        early += task.await;
    }
    let lap = Lap { elapsed: start.elapsed(), ops: steps / TASKS * TASKS };
    drop(sleeping);
    Wrong::unless_equal("sleeps that were over at once", early, 0)?;
    Ok(lap)
}

/// What each of these tasks does; how many sleeps were over at once.
pub(crate) async fn rounds<S: Future<Output = ()>>(
    sleep: impl Fn(Duration) -> S,
    rounds: u64,
) -> u64 {
    let mut early = 0;
    for n in 0..rounds {
        let mut new = pin!(sleep(FAR + Duration::from_nanos(n)));
        early += u64::from(is_over(new.as_mut()).await);
        give_way().await;
    }
    early
}

/// Begins so many sleeps.
async fn begin<S: Future<Output = ()>>(
    sleep: &impl Fn(Duration) -> S,
    live: u64,
) -> (Vec<Pin<Box<S>>>, u64) {
    let mut early = 0;
    let mut sleeping = Vec::new();
    for n in 0..live {
        let mut new = Box::pin(sleep(FAR + Duration::from_micros(n)));
        early += u64::from(is_over(new.as_mut()).await);
        sleeping.push(new);
    }
    // tokio makes a system call for each new timer until it has waited once.
    sleep(Duration::from_millis(1)).await;
    (sleeping, early)
}

/// The same for everybody: tokio's own goes to the kernel before the task has its next turn.
async fn give_way() {
    let mut given = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn is_over(mut sleep: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await
}

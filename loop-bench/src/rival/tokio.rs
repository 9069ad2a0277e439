//! tokio's current-thread runtime: messages from another thread, an echo server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::yield_now;

use super::echo_server::Ready;
use super::hub::{Hub, Post, Tally};
use crate::sample::Wrong;

pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Messages arrive through a channel without bound: cheaper here than a task for each.
pub(crate) struct Channel;

impl Hub for Channel {
    fn run(&self, busy: bool, tally: Arc<Tally>, start: impl FnOnce(Post)) -> Result<(), Wrong> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        runtime()?.block_on(async {
            if busy {
                keep_busy(&tally);
            }
            start(Box::new(move |value| _ = sender.send(value)));
            // As a task, like the busy one: what `block_on` itself polls is scheduled otherwise.
            let receiving = tokio::spawn(async move {
                while let Some(value) = receiver.recv().await {
                    if tally.take(value) {
                        break;
                    }
                }
            });
            receiving.await.map_err(|error| Wrong(format!("the receiving task: {error}")))
        })
    }
}

/// Something to do that is always ready, until `tally` is complete.
fn keep_busy(tally: &Arc<Tally>) {
    let tally = Arc::clone(tally);
    drop(tokio::spawn(async move {
        while !tally.is_complete() {
            yield_now().await;
        }
    }));
}

/// Each message is a task of its own.
pub(crate) struct Spawns;

impl Hub for Spawns {
    fn run(&self, busy: bool, tally: Arc<Tally>, start: impl FnOnce(Post)) -> Result<(), Wrong> {
        let runtime = runtime()?;
        let (handle, complete) = (runtime.handle().clone(), Arc::new(Notify::new()));
        runtime.block_on(async {
            if busy {
                keep_busy(&tally);
            }
            let done = Arc::clone(&complete);
            start(Box::new(move |value| {
                let (tally, done) = (Arc::clone(&tally), Arc::clone(&done));
                drop(handle.spawn(async move {
                    if tally.take(value) {
                        done.notify_one();
                    }
                }));
            }));
            complete.notified().await;
        });
        Ok(())
    }
}

/// Each message is a boxed closure, which a task takes out of a channel without bound and calls.
pub(crate) struct Closures;

impl Hub for Closures {
    fn run(&self, busy: bool, tally: Arc<Tally>, start: impl FnOnce(Post)) -> Result<(), Wrong> {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Box<dyn FnOnce() -> bool + Send>>();
        runtime()?.block_on(async {
            if busy {
                keep_busy(&tally);
            }
            start(Box::new(move |value| {
                let tally = Arc::clone(&tally);
                _ = sender.send(Box::new(move || tally.take(value)));
            }));
            let receiving = tokio::spawn(async move {
                while let Some(closure) = receiver.recv().await {
                    if closure() {
                        break;
                    }
                }
            });
            receiving.await.map_err(|error| Wrong(format!("the receiving task: {error}")))
        })
    }
}

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let echoed = Arc::new(AtomicU64::new(0));
    runtime()?.block_on(async {
        let listener = TcpListener::bind(ready.listen()).await?;
        let buffer = ready.buffer();
        let (stop, stopped) = oneshot::channel();
        ready.announce(listener.local_addr()?, move || _ = stop.send(()));
        let count = Arc::clone(&echoed);
        drop(tokio::spawn(async move {
            while let Ok((stream, _peer)) = listener.accept().await {
                drop(tokio::spawn(echo(stream, buffer, Arc::clone(&count))));
            }
        }));
        // A closed channel stops as well: the starter has gone.
        _ = stopped.await;
        io::Result::Ok(())
    })?;
    Ok(echoed.load(Ordering::Relaxed))
}

async fn echo(mut stream: TcpStream, buffer: usize, echoed: Arc<AtomicU64>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; buffer];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
        echoed.fetch_add(count as u64, Ordering::Relaxed);
    }
}

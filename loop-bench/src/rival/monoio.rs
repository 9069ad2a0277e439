//! An echo server on monoio, over io_uring.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::thread;

use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{ListenerOpts, TcpListener, TcpStream};
use monoio::{IoUringDriver, Runtime, RuntimeBuilder, spawn};

use super::echo_server::Ready;

fn runtime() -> io::Result<Runtime<IoUringDriver>> {
    RuntimeBuilder::<IoUringDriver>::new().build()
}

/// Why it cannot run here, if it cannot.
pub(crate) fn refusal() -> Option<String> {
    // In a thread of its own: the kernel may interrupt a thread to tidy up behind a ring.
    let made = thread::spawn(|| runtime().err().map(|error| format!("io_uring: {error}"))).join();
    made.unwrap_or_else(|_panic| Some("its runtime panics".into()))
}

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let echoed = Rc::new(Cell::new(0));
    let count = Rc::clone(&echoed);
    runtime()?.block_on(async move {
        // Several loops could share a port else, and its listeners would.
        let options = ListenerOpts::new().reuse_port(false).backlog(1_024);
        let listener = TcpListener::bind_with_config(ready.listen(), &options)?;
        let buffer = ready.buffer();
        let stopped = ready.announce_last(listener.local_addr()?);
        let (open, mut all_closed) = tokio::sync::mpsc::channel::<()>(1);
        loop {
            let (stream, _peer) = listener.accept().await?;
            if stopped.load(Ordering::Acquire) {
                break;
            }
            let (count, open) = (Rc::clone(&count), open.clone());
            drop(spawn(async move {
                _ = echo(stream, buffer, count).await;
                drop(open);
            }));
        }
        // Its runtime keeps what a task holds that it did not end, the descriptor too. The clients are gone.
        drop(open);
        all_closed.recv().await;
        io::Result::Ok(())
    })?;
    Ok(echoed.get())
}

async fn echo(mut stream: TcpStream, buffer: usize, echoed: Rc<Cell<u64>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(buffer);
    loop {
        // The kernel has the buffer while it reads and writes.
        let (count, filled) = stream.read(buffer).await;
        let count = count?;
        if count == 0 {
            return Ok(());
        }
        let (written, mut emptied) = stream.write_all(filled).await;
        written?;
        echoed.set(echoed.get() + count as u64);
        emptied.clear();
        buffer = emptied;
    }
}

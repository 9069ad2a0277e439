//! An echo server on compio, over io_uring.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::thread;

use compio::BufResult;
use compio::driver::{DriverType, ProactorBuilder};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpSocket, TcpStream};
use compio::runtime::{Runtime, RuntimeBuilder, spawn};

use super::echo_server::Ready;

/// Else it would choose another driver where there is no ring.
fn runtime() -> io::Result<Runtime> {
    let mut driver = ProactorBuilder::new();
    driver.driver_type(DriverType::IoUring);
    RuntimeBuilder::new().with_proactor(driver).build()
}

/// Why it cannot run here, if it cannot.
pub(crate) fn refusal() -> Option<String> {
    // In a thread of its own: the kernel may interrupt a thread to tidy up behind a ring.
    let made = thread::spawn(|| runtime().err().map(|error| format!("io_uring: {error}"))).join();
    made.unwrap_or_else(|_panic| Some("its runtime panics".into()))
}

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let echoed = Rc::new(Cell::new(0));
    runtime()?.block_on(async {
        let listener = listen(ready.listen()).await?;
        let buffer = ready.buffer();
        let stopped = ready.announce_last(listener.local_addr()?);
        loop {
            let (stream, _peer) = listener.accept().await?;
            if stopped.load(Ordering::Acquire) {
                return io::Result::Ok(());
            }
            spawn(echo(stream, buffer, Rc::clone(&echoed))).detach();
        }
    })?;
    Ok(echoed.get())
}

/// With the backlog that the others ask for; `TcpListener::bind` asks for 128.
async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4().await?,
        SocketAddr::V6(_) => TcpSocket::new_v6().await?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address).await?;
    socket.listen(1_024).await
}

async fn echo(mut stream: TcpStream, buffer: usize, echoed: Rc<Cell<u64>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(buffer);
    loop {
        // The kernel has the buffer while it reads and writes.
        let BufResult(count, filled) = stream.read(buffer).await;
        let count = count?;
        if count == 0 {
            return Ok(());
        }
        let BufResult(written, mut emptied) = stream.write_all(filled).await;
        written?;
        echoed.set(echoed.get() + count as u64);
        emptied.clear();
        buffer = emptied;
    }
}

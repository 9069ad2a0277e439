//! An echo server on the crates that smol is made of: async-io and async-executor.

use std::cell::Cell;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use async_executor::LocalExecutor;
use async_io::{Async, block_on};
use futures_lite::{AsyncReadExt, AsyncWriteExt};

use super::echo_server::Ready;

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let (executor, echoed) = (LocalExecutor::new(), Rc::new(Cell::new(0)));
    block_on(executor.run(async {
        let listener = Async::<TcpListener>::bind(ready.listen())?;
        let buffer = ready.buffer();
        let stopped = ready.announce_last(listener.get_ref().local_addr()?);
        loop {
            let (stream, _peer) = listener.accept().await?;
            if stopped.load(Ordering::Acquire) {
                return io::Result::Ok(());
            }
            executor.spawn(echo(stream, buffer, Rc::clone(&echoed))).detach();
        }
    }))?;
    Ok(echoed.get())
}

async fn echo(
    mut stream: Async<TcpStream>,
    buffer: usize,
    echoed: Rc<Cell<u64>>,
) -> io::Result<()> {
    stream.get_ref().set_nodelay(true)?;
    let mut buffer = vec![0; buffer];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
        echoed.set(echoed.get() + count as u64);
    }
}

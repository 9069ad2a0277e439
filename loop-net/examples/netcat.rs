//! Level 1 on a terminal and a socket side by side: a small `nc`.
//!
//! `cargo run --release -p loop-net --example netcat 127.0.0.1:7777`
//!
//! What is typed goes to the peer and what the peer sends is printed, both as they come. The end of the
//! input (Ctrl-D) ends our side of the connection; the program ends when the peer has ended too. It
//! works as well with its input from a pipe or a file.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;

use loop_net::{AsyncFd, LoopRef, run, spawn};

async fn copy<A: AsFd, B: AsFd>(from: &AsyncFd<A>, to: &AsyncFd<B>) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match from.read(&mut buffer).await? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count]).await?,
        }
    }
}

async fn talk(addr: String) -> io::Result<()> {
    let lp = LoopRef::current();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    let received = AsyncFd::new(&lp, socket.try_clone()?)?;
    let socket = AsyncFd::new(&lp, socket)?;
    socket.connect_host(addr.as_str()).await?;

    let input = AsyncFd::new(&lp, io::stdin())?;
    let output = AsyncFd::new(&lp, io::stdout())?;
    let typing = spawn(async move {
        copy(&input, &socket).await?;
        socket.get_ref().shutdown(Shutdown::Write)
    });
    copy(&received, &output).await?;
    // The peer has ended; whatever is still typed reaches nobody.
    typing.cancel();
    match typing.await {
        Ok(result) => result,
        Err(_) => Ok(()),
    }
}

fn main() -> io::Result<()> {
    let addr = std::env::args().nth(1);
    run(talk(addr.unwrap_or_else(|| "127.0.0.1:7777".to_owned())))?
}

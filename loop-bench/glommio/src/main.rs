//! An echo server on glommio, a task for each connection. It says where it listens, and what it has echoed when its
//! standard input has ended. Its argument is an address to listen on, or the word `version`.

use std::env;
use std::io;
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement, spawn_local};

static ECHOED: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    // First, and for `version` too: a kernel may allow no io_uring.
    let executor = LocalExecutorBuilder::new(Placement::Unbound).make()?;
    if listen == "version" {
        println!("glommio 0.9.0");
        return Ok(());
    }
    executor.run(async {
        let listener = TcpListener::bind(listen)?;
        println!("listening on {}", listener.local_addr()?);
        thread::spawn(end_with_input);
        loop {
            spawn_local(echo(listener.accept().await?)).detach();
        }
    })
}

/// The executor is busy, so another thread waits; it ends the process.
fn end_with_input() {
    let ended = io::copy(&mut io::stdin(), &mut io::sink());
    println!("echoed {}", ECHOED.load(Ordering::Relaxed));
    exit(i32::from(ended.is_err()));
}

/// A connection that breaks ends alone. Its buffer grows until it holds a message.
async fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 4 * 1024];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..count]).await?;
        ECHOED.fetch_add(count as u64, Ordering::Relaxed);
        if count == buffer.len() {
            buffer.resize(2 * count, 0);
        }
    }
}

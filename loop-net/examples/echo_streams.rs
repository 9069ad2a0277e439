//! The echo server on level 3: a task a connection, reading and writing streams.
//!
//! `cargo run --release -p loop-net --example echo_streams [PORT]`, then `nc 127.0.0.1 7777`.
//! Ctrl-C ends it.

use loop_net::{EventLoop, Net, Signal};

fn main() -> std::io::Result<()> {
    let port = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, format!("{text}: not a port"))
        })?,
        None => 7777,
    };
    let mut event_loop = EventLoop::new()?;
    let net = Net::os(&event_loop);
    let server = net.tcp_server(("127.0.0.1", port)).serve_streams(async |mut reader, writer| {
        loop {
            let data = reader.read(64 * 1024).await?;
            if data.is_empty() {
                return std::io::Result::Ok(());
            }
            writer.write(&data);
            writer.drain().await?;
        }
    });
    let server = event_loop.run_until_complete(server)??;
    for signal in [Signal::INT, Signal::TERM] {
        let lp = event_loop.loop_ref();
        event_loop.add_signal_handler(signal, move || lp.stop())?;
    }
    println!("listening on {} ({})", server.local_addrs()[0], event_loop.selector_name());
    event_loop.run_forever()?;
    Ok(())
}

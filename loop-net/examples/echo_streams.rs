//! The echo server on level 3: a task a connection, reading and writing streams.
//!
//! `cargo run --release -p loop-net --example echo_streams [PORT]`, then `nc 127.0.0.1 7777`.
//! Ctrl-C ends it.

use loop_net::{LoopRef, Net, StreamReader, StreamWriter, run};

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7777".to_owned());
    run(async {
        let lp = LoopRef::current();
        let echo = async |mut reader: StreamReader, writer: StreamWriter| {
            let mut buffer = vec![0; 4096]; // An array would make the task so large, and be moved with it.
            loop {
                let count = reader.read_into(&mut buffer).await?;
                if count == 0 {
                    return std::io::Result::Ok(());
                }
                writer.write(&buffer[..count]);
                writer.drain().await?;
            }
        };
        let server =
            Net::os(&lp).tcp_server(format!("127.0.0.1:{port}")).serve_streams(echo).await?;
        println!("listening on {} ({})", server.local_addrs()[0], lp.selector_name());
        // Whatever is left of the connections' tasks is cancelled when `run` returns.
        server.serve_until_interrupted().await
    })?
}

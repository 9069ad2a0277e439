//! A WebSocket server that sends every message back, with tungstenite over a stream of this crate.
//!
//! `cargo run -p loop-net --example websocket_echo --features tokio-io -- 9000`

use std::io;

use futures_util::{SinkExt, StreamExt};
use loop_net::{LoopRef, Net, StreamReader, StreamWriter, run};
use tokio_tungstenite::tungstenite::Error;

async fn echo(reader: StreamReader, writer: StreamWriter) -> Result<(), Error> {
    let mut socket = tokio_tungstenite::accept_async(tokio::io::join(reader, writer)).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        // Pings and closing are answered by tungstenite.
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "9000".to_owned());
    run(async move {
        let lp = LoopRef::current();
        let serving = Net::os(&lp).tcp_server(format!("127.0.0.1:{port}"));
        let serving = serving.serve_streams(async |reader, writer| {
            if let Err(error) = echo(reader, writer).await {
                println!("a client is gone: {error}");
            }
        });
        let server = serving.await?;
        println!("listening on {}", server.local_addrs()[0]);
        server.serve_until_interrupted().await?;
        server.drain(std::time::Duration::from_secs(1)).await;
        Ok(())
    })?
}

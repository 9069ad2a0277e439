//! A server behind HAProxy or nginx: several processes on one machine or on many, each an ordinary server,
//! and a proxy in front that spreads the connections and says whom it speaks for.
//!
//! `cargo run --release -p loop-net --example behind_proxy [PORT]`, one for each port, and in HAProxy:
//!
//! ```text
//! backend servers
//!     server one 127.0.0.1:7001 send-proxy-v2 check
//!     server two 127.0.0.1:7002 send-proxy-v2 check
//! ```
//!
//! It answers each HTTP request with the client's address and its own process id. Ctrl-C shuts it down in
//! order: it answers who has connected, stops listening, so that HAProxy sends nobody new, and ends. To lose nobody
//! who connects at that very moment, tell HAProxy before: `set server servers/one state drain`.
//! `ci/interop/haproxy.py` runs two of them.

use std::io;
use std::time::Duration;

use loop_net::{LoopRef, Net, StreamReader, StreamWriter, run};

/// How long a proxy may take to say whom it speaks for.
const PATIENCE: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(5);

/// One request a connection: its head is read, whatever it says, and answered.
async fn answer(mut reader: StreamReader, writer: StreamWriter) -> io::Result<()> {
    let Some(client) = writer.transport().peer_addr() else { return Ok(()) };
    // HAProxy looks whether we live with connections that it resets.
    while let Ok(Some(line)) = reader.read_line().await {
        if line == b"\r\n" || line == b"\n" {
            let body = format!("{client} {}\n", std::process::id());
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            writer.write_all_vectored(&[head.as_bytes(), body.as_bytes()]);
            return writer.drain().await;
        }
    }
    Ok(())
}

async fn serve(port: &str) -> io::Result<()> {
    let lp = LoopRef::current();
    let net = Net::os(&lp);
    let builder = net.tcp_server(format!("127.0.0.1:{port}")).proxy_protocol(PATIENCE);
    let server = builder.serve_streams(answer).await?;
    println!("listening on {} ({})", server.local_addrs()[0], lp.selector_name());
    server.serve_until_interrupted().await?;
    server.drain(GRACE).await;
    Ok(())
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7001".to_owned());
    run(serve(&port))?
}

//! An echo server on level 2: a `Protocol` whose hooks the loop calls.
//!
//! `cargo run --release -p loop-net --example echo_protocol [PORT]`, then `nc 127.0.0.1 7777`.
//! Ctrl-C ends it.

use std::time::Duration;

use loop_net::{EventLoop, Net, Protocol, Transport};

#[derive(Default)]
struct Echo {
    transport: Option<Transport>,
}

impl Protocol for Echo {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
    }

    fn data_received(&mut self, data: &[u8]) {
        if let Some(transport) = &self.transport {
            transport.write(data);
        }
    }

    // A peer that sends without reading is not read from until it has caught up.
    fn pause_writing(&mut self) {
        if let Some(transport) = &self.transport {
            transport.pause_reading();
        }
    }

    fn resume_writing(&mut self) {
        if let Some(transport) = &self.transport {
            transport.resume_reading();
        }
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "7777".to_owned());
    let mut event_loop = EventLoop::new()?;
    let net = Net::os(&event_loop);
    let server = event_loop
        .run_until_complete(net.tcp_server(format!("127.0.0.1:{port}")).bind(Echo::default))??;
    println!("listening on {} ({})", server.local_addrs()[0], event_loop.selector_name());
    event_loop.run_until_complete(server.serve_until_interrupted())??;

    println!("closing {} connections", server.connections());
    server.close_clients();
    event_loop.run_until_complete(server.drain(Duration::from_secs(5)))?;
    Ok(())
}

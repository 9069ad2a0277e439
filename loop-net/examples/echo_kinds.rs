//! One echo for every kind of socket: TCP, Unix streams, UDP, Unix datagrams.
//!
//! `cargo run --release -p loop-net --example echo_kinds DIRECTORY [PORT]`
//!
//! Streams are served by one server that listens on a TCP port and on `DIRECTORY/stream`; datagrams by
//! two endpoints, on a UDP port and on `DIRECTORY/datagram`. Ctrl-C closes in order, and the files are
//! gone. `ci/interop/kinds.py` has Python's asyncio and `socat` talk to it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use loop_net::{
    DatagramProtocol, DatagramTransport, LoopRef, Net, Protocol, SockAddr, Transport, run,
};

#[derive(Default)]
struct Streams(Option<Transport>);

impl Protocol for Streams {
    fn connection_made(&mut self, transport: &Transport) {
        self.0 = Some(transport.clone());
    }

    fn data_received(&mut self, data: &[u8]) {
        if let Some(transport) = &self.0 {
            transport.write(data);
        }
    }

    /// A peer that sends without reading is not read from meanwhile.
    fn pause_writing(&mut self) {
        if let Some(transport) = &self.0 {
            transport.pause_reading();
        }
    }

    fn resume_writing(&mut self) {
        if let Some(transport) = &self.0 {
            transport.resume_reading();
        }
    }
}

#[derive(Default)]
struct Datagrams(Option<DatagramTransport>);

impl DatagramProtocol for Datagrams {
    fn connection_made(&mut self, transport: &DatagramTransport) {
        self.0 = Some(transport.clone());
    }

    fn datagram_received(&mut self, data: &[u8], from: &SockAddr) {
        // Who has no address gets no answer.
        if let Some(transport) = self.0.as_ref().filter(|_| *from != SockAddr::Unnamed) {
            let _ = transport.send_to(data, from);
        }
    }
}

async fn serve(directory: PathBuf, port: &str) -> io::Result<()> {
    let lp = LoopRef::current();
    let net = Net::os(&lp);
    let local = format!("127.0.0.1:{port}");
    let streams = net.tcp_server(&local).and_unix(directory.join("stream"));
    let streams = streams.bind(Streams::default).await?;
    let udp = net.udp(&local).open(Datagrams::default).await?;
    let unix = net.unix_datagram(directory.join("datagram")).open(Datagrams::default).await?;
    let (tcp, udp_addr) = (streams.local_addrs()[0], udp.local_sock_addr());
    println!("listening on {tcp}, {udp_addr} ({})", lp.selector_name());

    streams.serve_until_interrupted().await?;
    udp.close();
    unix.close();
    streams.drain(Duration::from_secs(5)).await;
    Ok(())
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().unwrap_or_else(|| ".".to_owned());
    let port = args.next().unwrap_or_else(|| "7777".to_owned());
    run(serve(directory.into(), &port))?
}

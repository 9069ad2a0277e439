//! One echo for every kind of socket, and a client for each: TCP, Unix streams, UDP, Unix datagrams.
//!
//! `cargo run --release -p loop-net --example echo_kinds serve DIRECTORY [PORT]`
//!
//! Streams are served by one server that listens on a TCP port and on `DIRECTORY/stream`; datagrams by
//! two endpoints, on a UDP port and on `DIRECTORY/datagram`. Ctrl-C closes in order, and the files are
//! gone.
//!
//! `echo_kinds tcp 127.0.0.1:7777`, `echo_kinds unix DIRECTORY/stream`, `echo_kinds udp 127.0.0.1:7777`,
//! `echo_kinds unix-datagram DIRECTORY/datagram`
//!
//! They send what they read from standard input, once they have all of it, and write what comes back; of
//! datagrams each line is one, and its answer is waited for. `ci/interop/kinds.py` has Python's asyncio at the
//! other end of all of them, and `socat`.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use loop_net::loop_core::sync::Queue;
use loop_net::{
    DatagramBuilder, DatagramProtocol, DatagramTransport, LoopRef, Net, Protocol, SockAddr,
    StreamReader, StreamWriter, Transport, run, spawn, timeout,
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

/// Sends everything, ends our side, and writes what comes until the server ends its own.
async fn talk((mut reader, writer): (StreamReader, StreamWriter)) -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    // Both at once, or large inputs would fill both directions.
    let sending = spawn(async move {
        for piece in input.chunks(65536) {
            writer.write(piece);
            writer.drain().await?;
        }
        writer.write_eof();
        io::Result::Ok(writer)
    });
    let mut output = io::stdout();
    loop {
        let piece = reader.read(65536).await?;
        if piece.is_empty() {
            break;
        }
        output.write_all(&piece)?;
    }
    let writer = sending.await.map_err(io::Error::other)??;
    writer.close();
    writer.wait_closed().await
}

/// What comes, and what went wrong.
type Answers = Rc<Queue<io::Result<Vec<u8>>>>;

struct Client(Answers);

impl DatagramProtocol for Client {
    fn datagram_received(&mut self, data: &[u8], _: &SockAddr) {
        // The queue has no bound.
        let _ = self.0.try_put(Ok(data.to_vec()));
    }

    fn error_received(&mut self, error: io::Error) {
        let _ = self.0.try_put(Err(error));
    }
}

async fn exchange(builder: DatagramBuilder) -> io::Result<()> {
    let answers = Answers::default();
    let client = Client(answers.clone());
    let transport = builder.open(move || client).await?;
    for line in io::stdin().lines() {
        transport.send(line?.as_bytes())?;
        let answer = timeout(Duration::from_secs(10), answers.get()).await;
        let answer = answer.map_err(io::Error::other)?.map_err(io::Error::other)??;
        io::stdout().write_all(&[&answer, &b"\n"[..]].concat())?;
    }
    transport.close();
    Ok(())
}

async fn ask(kind: &str, addr: &str) -> io::Result<()> {
    let net = Net::os(&LoopRef::current());
    match kind {
        "tcp" => talk(net.tcp_connect(addr).open_stream().await?).await,
        "unix" => talk(net.unix_connect(addr).open_stream().await?).await,
        "udp" => exchange(net.udp_connect(addr)).await,
        "unix-datagram" => {
            // Without an address of its own it would get no answer.
            let own = format!("{addr}.{}", std::process::id());
            exchange(net.unix_datagram_connect(addr).local_unix(own)).await
        }
        _ => Err(io::Error::other("the kinds are tcp, unix, udp, unix-datagram, and serve")),
    }
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", directory] => run(serve(directory.into(), "7777"))?,
        ["serve", directory, port] => run(serve(directory.into(), port))?,
        [kind, addr] => run(ask(kind, addr))?,
        _ => {
            Err(io::Error::other("usage: echo_kinds serve DIRECTORY [PORT] | echo_kinds KIND ADDR"))
        }
    }
}

//! This project's echo servers: a protocol, and streams, on a loop with the selector of that name.

use std::cell::Cell;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use loop_core::{EventLoop, LoopRef};
use loop_net::{AsyncFd, Net, Protocol, Server, StreamReader, StreamWriter, Transport};
use loop_selector::by_name;
use rustix::net::sockopt;

use super::echo_server::{Ready, Serve};

/// As many may wait to be accepted as with mio and tokio.
const BACKLOG: u16 = 1_024;

struct Echo {
    transport: Option<Transport>,
    echoed: Rc<Cell<u64>>,
}

impl Protocol for Echo {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
    }

    fn data_received(&mut self, data: &[u8]) {
        if let Some(transport) = &self.transport {
            transport.write(data);
            self.echoed.set(self.echoed.get() + data.len() as u64);
        }
    }
}

/// Callbacks, on the selector of that name.
pub(crate) fn protocol_server(selector: &'static str) -> Serve {
    Arc::new(move |ready| {
        let mut event_loop = event_loop(selector)?;
        let echoed = Rc::new(Cell::new(0));
        let count = Rc::clone(&echoed);
        let factory = move || Echo { transport: None, echoed: Rc::clone(&count) };
        let net = Net::os(&event_loop);
        let listening = net.tcp_server(ready.listen()).backlog(BACKLOG).bind(factory);
        let server = event_loop.run_until_complete(listening)??;
        serve(&mut event_loop, &server, ready)?;
        Ok(echoed.get())
    })
}

/// A task for each connection, on the selector of that name.
pub(crate) fn stream_server(selector: &'static str) -> Serve {
    Arc::new(move |ready| {
        let mut event_loop = event_loop(selector)?;
        let echoed = Rc::new(Cell::new(0));
        let count = Rc::clone(&echoed);
        let buffer = ready.buffer();
        let handler = move |reader, writer| echo(reader, writer, buffer, Rc::clone(&count));
        let net = Net::os(&event_loop);
        let listening = net.tcp_server(ready.listen()).backlog(BACKLOG).serve_streams(handler);
        let server = event_loop.run_until_complete(listening)??;
        serve(&mut event_loop, &server, ready)?;
        Ok(echoed.get())
    })
}

async fn echo(
    mut reader: StreamReader,
    writer: StreamWriter,
    buffer: usize,
    echoed: Rc<Cell<u64>>,
) -> io::Result<()> {
    loop {
        let data = reader.read(buffer).await?;
        if data.is_empty() {
            return Ok(());
        }
        writer.write(&data);
        writer.drain().await?;
        echoed.set(echoed.get() + data.len() as u64);
    }
}

/// A task for each connection, which asks the socket itself, on the selector of that name.
pub(crate) fn socket_server(selector: &'static str) -> Serve {
    Arc::new(move |ready| {
        let mut event_loop = event_loop(selector)?;
        let echoed = Rc::new(Cell::new(0));
        let (lp, buffer) = (event_loop.loop_ref(), ready.buffer());
        let listener = AsyncFd::new(&lp, TcpListener::bind(ready.listen())?)?;
        let address = listener.get_ref().local_addr()?;
        let count = Rc::clone(&echoed);
        let accepting = event_loop.spawn(accept_sockets(lp, listener, buffer, count));
        let remote = event_loop.remote();
        ready.announce(address, move || _ = remote.stop());
        event_loop.run_forever()?;
        accepting.cancel();
        finish_tasks(&mut event_loop)?;
        Ok(echoed.get())
    })
}

/// Until it fails, which the clients notice.
async fn accept_sockets(
    lp: LoopRef,
    listener: AsyncFd<TcpListener>,
    buffer: usize,
    echoed: Rc<Cell<u64>>,
) -> io::Result<()> {
    loop {
        let (socket, _peer) = listener.accept().await?;
        sockopt::set_tcp_nodelay(socket.get_ref(), true)?;
        drop(lp.spawn(echo_on_socket(socket, buffer, Rc::clone(&echoed))));
    }
}

async fn echo_on_socket(
    socket: AsyncFd<OwnedFd>,
    buffer: usize,
    echoed: Rc<Cell<u64>>,
) -> io::Result<()> {
    let mut buffer = vec![0; buffer];
    loop {
        let count = socket.recv_into(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        socket.send_all(&buffer[..count]).await?;
        echoed.set(echoed.get() + count as u64);
    }
}

fn event_loop(selector: &str) -> io::Result<EventLoop> {
    EventLoop::builder().selector(by_name(selector)?).build()
}

/// Runs until it is stopped, and then until the clients, who have gone, are seen to be gone.
pub(crate) fn serve(event_loop: &mut EventLoop, server: &Server, ready: Ready) -> io::Result<()> {
    let remote = event_loop.remote();
    ready.announce(server.local_addrs()[0], move || _ = remote.stop());
    event_loop.run_forever()?;
    server.close();
    event_loop.run_until_complete(server.wait_closed())?;
    // The last connections are over; their tasks may have one step left, to see it.
    finish_tasks(event_loop)
}

fn finish_tasks(event_loop: &mut EventLoop) -> io::Result<()> {
    while !event_loop.tasks().is_empty() {
        event_loop.run_once(None)?;
    }
    Ok(())
}

//! Sockets on a single-threaded event loop: transports and protocols, streams, servers.
//!
//! # Start here
//!
//! An echo server with callbacks (level 2), the fast way:
//!
//! ```
//! use loop_net::{EventLoop, Net, Protocol, Transport};
//!
//! #[derive(Default)]
//! struct Echo(Option<Transport>);
//!
//! impl Protocol for Echo {
//!     fn connection_made(&mut self, transport: &Transport) {
//!         self.0 = Some(transport.clone());
//!     }
//!     fn data_received(&mut self, data: &[u8]) {
//!         if let Some(transport) = &self.0 {
//!             transport.write(data);
//!         }
//!     }
//! }
//!
//! let mut event_loop = EventLoop::new()?;
//! let net = Net::os(&event_loop);
//! let server = event_loop.run_until_complete(net.tcp_server("127.0.0.1:0").bind(Echo::default))??;
//! println!("listening on {}", server.local_addrs()[0]);
//! # event_loop.call_soon({ let lp = event_loop.loop_ref(); move || lp.stop() });
//! event_loop.run_forever()?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! And a client with `async` streams (level 3), the short way:
//!
//! ```
//! # use loop_net::{Net, run, LoopRef};
//! # run(async {
//! # let net = Net::os(&LoopRef::current());
//! # let server = net.tcp_server("127.0.0.1:0").serve_streams(async |mut r, w| {
//! #     while let Some(line) = r.read_line().await? { w.write(&line); }
//! #     std::io::Result::Ok(())
//! # }).await?;
//! # let address = server.local_addrs()[0];
//! let (mut reader, writer) = net.tcp_connect(address).open_stream().await?;
//! writer.write(b"hello\n");
//! writer.drain().await?;
//! assert_eq!(reader.read_line().await?.unwrap(), b"hello\n");
//! # std::io::Result::Ok(())
//! # })??;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # How it is built
//!
//! Streams are a [`Protocol`] of this crate; a protocol sits on a [`Transport`], which is a pure state
//! machine, a write buffer and an engine that reads and writes when the loop says so. The loop owns a
//! connection until its `connection_lost`; handles are weak. The read buffer belongs to the loop, so an
//! idle connection owns no buffer at all.
//!
//! # Coming from asyncio
//!
//! What has to do with sockets; [loop-core](loop_core::coming_from::asyncio) has the rest. `net` is a [`Net`].
//!
//! | asyncio | here |
//! |---|---|
//! | `start_server(f, host, port)` | [`net.tcp_server(addr).serve_streams(f)`](ServerBuilder::serve_streams) |
//! | `open_connection(host, port)` | [`net.tcp_connect(addr).open_stream()`](TcpConnector::open_stream) |
//! | `loop.create_server(P, …)` | [`net.tcp_server(addr).bind(P::new)`](ServerBuilder::bind) |
//! | `loop.create_connection(P, …)` | [`net.tcp_connect(addr).connect(P::new)`](TcpConnector::connect) |
//! | the same with `unix` in their names | [`net.unix_server(path)`](Net::unix_server), [`net.unix_connect(path)`](Net::unix_connect) |
//! | `loop.create_datagram_endpoint` | [`net.udp(local).open(P::new)`](Net::udp), [`net.udp_connect(remote)`](Net::udp_connect) |
//! | `create_subprocess_exec`, `_shell` | [`net.exec(command).spawn()`](Net::exec), [`net.shell(line).spawn()`](Net::shell) |
//! | `loop.subprocess_exec(P, …)` | [`net.exec(command).connect(P::new)`](ProcessBuilder::connect) |
//! | `loop.connect_read_pipe`, `_write_pipe` | [`net.read_pipe(fd)`](Net::read_pipe), [`net.write_pipe(fd)`](Net::write_pipe) |
//! | `ssl=context` | `.tls(tls)` on servers and connectors, with the feature `tls` |
//! | `writer.get_extra_info("peername")` | [`writer.transport().peer_addr()`](Transport::peer_addr) |
//! | `server.serve_forever()` | [the same](Server::serve_forever), or [`serve_until_interrupted`](Server::serve_until_interrupted) |
//! | `loop.sock_recv`, `sock_sendall`, … | the methods of [`AsyncFd`] |
//! | `loop.sendfile` | [`Transport::send_file`] |
//! | `loop.getaddrinfo` | [`Net::resolve`] |
//!
//! # Map
//!
//! | for | see |
//! |---|---|
//! | getting connections | [`Net`], [`ServerBuilder`], [`TcpConnector`], [`UnixConnector`], [`ToAddrs`] |
//! | level 1: descriptors | [`AsyncFd`], [`SockAddr`] |
//! | level 2: hooks | [`Protocol`], [`BufferedProtocol`], [`Transport`], [`ProtocolRef`] |
//! | datagrams | [`DatagramBuilder`], [`DatagramProtocol`], [`DatagramTransport`] |
//! | pipes and terminals | [`ReadPipe`], [`WritePipe`] |
//! | child processes | [`Process`], [`Stdio`], [`ProcessProtocol`], [`ProcessTransport`] |
//! | level 3: streams | [`StreamReader`], [`StreamWriter`], [`Lines`] |
//! | TLS, with the feature `tls` | `Tls`, `StreamWriter::start_tls`, `TcpConnector::tls`, `ServerBuilder::tls` |
//! | streams for libraries of tokio's, with the feature `tokio-io` | [`StreamReader`], [`StreamWriter`] |
//! | sockets that systemd has opened, with the feature `inherited` | `inherited_listeners` |
//! | HTTP, with the feature `hyper` | `HyperIo`, `HyperExecutor`, `HyperTimer` |
//! | sending files | [`SendFile`], [`Transport::send_file`], [`AsyncFd::send_file`] |
//! | closing in order | [`Server`], [`Drained`] |
//! | many cores | [`serve_per_core`] |
//! | what went wrong | [`NetError`], [`ReadError`], [`Rejected`] |
//! | tasks, timers, threads, locks | [`loop_core`] |

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod addr;
mod adopt;
mod async_fd;
mod conn;
mod connect;
mod datagram;
mod error;
mod fd_passing;
#[cfg(feature = "hyper")]
mod hyper;
#[cfg(feature = "inherited")]
mod inherited;
mod layer;
mod net;
mod pipe;
mod process;
mod protocol;
mod protocol_ref;
#[cfg(doctest)]
mod refused;
mod security;
mod sendfile;
mod server;
mod sock;
mod sock_addr;
mod socket;
mod socket_view;
mod stream;
mod stream_state;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod unix;
mod waits;

#[cfg(feature = "hyper")]
#[cfg_attr(docsrs, doc(cfg(feature = "hyper")))]
pub use crate::hyper::{HyperExecutor, HyperIo, HyperTimer};
pub use addr::{Addrs, ToAddrs};
pub use adopt::Adopted;
pub use async_fd::AsyncFd;
pub use connect::TcpConnector;
pub use datagram::{DatagramBuilder, DatagramProtocol, DatagramTransport};
pub use error::{NetError, Rejected};
#[cfg(feature = "inherited")]
pub use inherited::inherited_listeners;
pub use net::Net;
pub use pipe::{ReadPipe, WritePipe};
pub use process::{ChildPipe, Process, ProcessBuilder, ProcessProtocol, ProcessTransport, Stdio};
pub use protocol::{Buffered, BufferedProtocol, KeepOpen, Protocol};
pub use protocol_ref::{ProtocolBusy, ProtocolRef};
pub use sendfile::SendFile;
pub use server::{Drained, PerCore, PerCoreDrained, Server, ServerBuilder, serve_per_core};
pub use sock_addr::SockAddr;
pub use socket_view::SocketView;
pub use stream::{Lines, ReadError, StreamReader, StreamWriter};
#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
pub use tls::{Tls, TlsInfo, TlsProtocol};
pub use transport::{Transport, WriteState};
pub use unix::UnixConnector;

/// The loop itself: what is not re-exported by itself is found there, so that a program needs no other crate of
/// these.
#[doc(no_inline)]
pub use loop_core;
/// What [`Tls`] is configured with, in the version that it takes.
#[cfg(feature = "tls")]
#[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
#[doc(no_inline)]
pub use rustls;

#[doc(no_inline)]
pub use loop_core::{
    EventLoop, LoopFuture, LoopRef, Outcome, PanicError, Signal, Task, TimerHandle, interrupted,
    run, sleep, sleep_until, spawn, timeout,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

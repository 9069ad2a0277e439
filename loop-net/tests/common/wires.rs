//! Making connections of each kind: ours, and the peer's end.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};

use loop_net::{
    Net, Protocol, ProtocolRef, Server, ServerBuilder, StreamReader, StreamWriter, Transport,
};

use super::{Kind, Peer, Probe, TempDir, World, listener, pipe, temp_dir};

/// How to reach a server of ours.
pub struct Address {
    kind: Kind,
    dir: TempDir,
}

impl Address {
    pub fn dial(&self, server: &Server) -> Peer {
        let tcp = || TcpStream::connect(server.local_addrs()[0]).unwrap();
        match self.kind {
            Kind::Tcp => named(tcp()),
            Kind::Unix => Peer::new(UnixStream::connect(self.dir.path().join("server")).unwrap()),
            #[cfg(feature = "tls")]
            Kind::Tls => {
                let socket = tcp();
                let (theirs, ours) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
                super::tls::plain_client(move || socket).named(theirs, ours)
            }
            kind => panic!("{kind:?} has no server"),
        }
    }
}

fn named(socket: TcpStream) -> Peer {
    let (theirs, ours) = (socket.local_addr().unwrap(), socket.peer_addr().unwrap());
    Peer::new(socket).named(theirs, ours)
}

/// What we connect to.
pub enum Target {
    Tcp(TcpListener),
    Unix(UnixListener, TempDir),
    Tls(TcpListener),
    /// Our end, and the peer's, until they are taken.
    ReadPipe(Cell<Option<File>>, Cell<Option<File>>),
    WritePipe(Cell<Option<File>>, Cell<Option<File>>),
}

impl Target {
    pub fn new(kind: Kind) -> Target {
        match kind {
            Kind::Tcp => Target::Tcp(listener().0),
            Kind::Unix => {
                let dir = temp_dir();
                Target::Unix(UnixListener::bind(dir.path().join("server")).unwrap(), dir)
            }
            Kind::Tls => Target::Tls(listener().0),
            Kind::ReadPipe => {
                let (reader, writer) = pipe();
                Target::ReadPipe(Cell::new(Some(reader)), Cell::new(Some(writer)))
            }
            Kind::WritePipe => {
                let (reader, writer) = pipe();
                Target::WritePipe(Cell::new(Some(writer)), Cell::new(Some(reader)))
            }
        }
    }

    /// The other end of a connection. A socket must be connecting already; over TLS its peer must speak
    /// before we are connected.
    pub fn peer(&self) -> Peer {
        match self {
            Target::Tcp(listener) => named(listener.accept().unwrap().0),
            Target::Unix(listener, _) => Peer::new(listener.accept().unwrap().0),
            #[cfg(feature = "tls")]
            Target::Tls(listener) => {
                let listener = listener.try_clone().unwrap();
                super::tls::plain_server(move || listener.accept().unwrap().0)
            }
            #[cfg(not(feature = "tls"))]
            Target::Tls(_) => unreachable!("without its feature it is left out"),
            Target::ReadPipe(_, theirs) | Target::WritePipe(_, theirs) => {
                Peer::new(theirs.take().unwrap())
            }
        }
    }

    /// Gives our end to a protocol.
    pub async fn connect<P: Protocol + 'static>(
        &self,
        net: &Net,
        factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, ProtocolRef<P>)> {
        match self {
            Target::Tcp(listener) => net.tcp_connect(listener.local_addr()?).connect(factory).await,
            Target::Unix(_, dir) => {
                net.unix_connect(dir.path().join("server")).connect(factory).await
            }
            #[cfg(feature = "tls")]
            Target::Tls(listener) => {
                let connector = net.tcp_connect(listener.local_addr()?);
                connector.tls(super::tls::shared().client()).connect(factory).await
            }
            #[cfg(not(feature = "tls"))]
            Target::Tls(_) => unreachable!("without its feature it is left out"),
            Target::ReadPipe(ours, _) => {
                net.read_pipe(ours.take().unwrap())?.connect(factory).await
            }
            Target::WritePipe(ours, _) => {
                net.write_pipe(ours.take().unwrap())?.connect(factory).await
            }
        }
    }

    /// Makes a stream of our end, which has a half for each of its directions.
    pub async fn open_stream(
        &self,
        net: &Net,
    ) -> io::Result<(Option<StreamReader>, Option<StreamWriter>)> {
        let (reader, writer) = match self {
            Target::Tcp(listener) => net.tcp_connect(listener.local_addr()?).open_stream().await?,
            Target::Unix(_, dir) => {
                net.unix_connect(dir.path().join("server")).open_stream().await?
            }
            #[cfg(feature = "tls")]
            Target::Tls(listener) => {
                let connector = net.tcp_connect(listener.local_addr()?);
                connector.tls(super::tls::shared().client()).open_stream().await?
            }
            #[cfg(not(feature = "tls"))]
            Target::Tls(_) => unreachable!("without its feature it is left out"),
            Target::ReadPipe(ours, _) => {
                let reader = net.read_pipe(ours.take().unwrap())?.open_stream().await?;
                return Ok((Some(reader), None));
            }
            Target::WritePipe(ours, _) => {
                let writer = net.write_pipe(ours.take().unwrap())?.open_stream().await?;
                return Ok((None, Some(writer)));
            }
        };
        Ok((Some(reader), Some(writer)))
    }
}

impl World {
    /// A server of this world's kind, to be bound, and how to reach it.
    pub fn server(&self) -> (ServerBuilder, Address) {
        let address = Address { kind: self.kind, dir: temp_dir() };
        let builder = match self.kind {
            Kind::Tcp => self.net.tcp_server("127.0.0.1:0"),
            Kind::Unix => self.net.unix_server(address.dir.path().join("server")),
            #[cfg(feature = "tls")]
            Kind::Tls => self.net.tcp_server("127.0.0.1:0").tls(super::tls::shared().server()),
            kind => panic!("{kind:?} has no server"),
        };
        (builder, address)
    }

    /// A TCP server whose connections share `probe`.
    pub fn serve(&mut self, probe: &Probe) -> Server {
        let probe = probe.clone();
        let server = self.net.tcp_server("127.0.0.1:0").bind(move || probe.clone());
        self.block_on(server).unwrap()
    }

    /// A connection with `probe` on our side, `connection_made` called, and its peer. A socket was accepted
    /// by a server that is closed already.
    pub fn accept(&mut self, probe: &Probe) -> (Transport, Peer) {
        if matches!(self.kind, Kind::ReadPipe | Kind::WritePipe) {
            let (transport, _, peer) = self.connect(probe.clone());
            return (transport, peer);
        }
        let (builder, address) = self.server();
        let made = probe.clone();
        let server = self.block_on(builder.bind(move || made.clone())).unwrap();
        let peer = address.dial(&server);
        self.until(|| probe.transport().is_some());
        server.close();
        (probe.transport().unwrap(), peer)
    }

    /// A connection that we begin, and its peer.
    pub fn connect<P: Protocol + 'static>(
        &mut self,
        protocol: P,
    ) -> (Transport, ProtocolRef<P>, Peer) {
        let target = Target::new(self.kind);
        let early = (self.kind == Kind::Tls).then(|| target.peer());
        let net = self.net.clone();
        let (transport, protocol) = self.block_on(target.connect(&net, move || protocol)).unwrap();
        (transport, protocol, early.unwrap_or_else(|| target.peer()))
    }

    /// A stream of ours with the halves that there are, and its peer.
    pub fn open(&mut self) -> (Option<StreamReader>, Option<StreamWriter>, Peer) {
        let target = Target::new(self.kind);
        let early = (self.kind == Kind::Tls).then(|| target.peer());
        let net = self.net.clone();
        let (reader, writer) = self.block_on(target.open_stream(&net)).unwrap();
        (reader, writer, early.unwrap_or_else(|| target.peer()))
    }

    /// A stream of ours, and its peer.
    pub fn open_stream(&mut self) -> (StreamReader, StreamWriter, Peer) {
        let (reader, writer, peer) = self.open();
        (reader.expect("both directions"), writer.expect("both directions"), peer)
    }

    /// A stream of ours that is read, what keeps it open, and who writes.
    pub fn open_reading(&mut self) -> (StreamReader, Option<StreamWriter>, Peer) {
        let (reader, writer, peer) = self.open();
        (reader.expect("one that is read"), writer, peer)
    }

    /// A stream of ours that is written to, what keeps it open, and who reads.
    pub fn open_writing(&mut self) -> (Option<StreamReader>, StreamWriter, Peer) {
        let (reader, writer, peer) = self.open();
        (reader, writer.expect("one that is written to"), peer)
    }
}

//! Both sides of TLS: certificates, servers, and a client that is only an engine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use loop_net::{Server, StreamReader, StreamWriter, Tls, Transport};
use rustix::event::{PollFd, PollFlags, poll};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};

use super::{Peer, Probe, World};

/// A self-signed certificate for `localhost`, and its key.
pub struct Identity {
    pub der: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Identity { der: made.cert.der().clone(), key: made.signing_key.serialize_der() }
    }

    pub fn key(&self) -> rustls::pki_types::PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.clone()).into()
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        roots
    }

    pub fn server_config(&self) -> ServerConfig {
        let builder = ServerConfig::builder().with_no_client_auth();
        builder.with_single_cert(vec![self.der.clone()], self.key()).unwrap()
    }

    pub fn client_config(&self) -> ClientConfig {
        ClientConfig::builder().with_root_certificates(self.roots()).with_no_client_auth()
    }

    pub fn server(&self) -> Tls {
        Tls::server(Arc::new(self.server_config()))
    }

    pub fn client(&self) -> Tls {
        Tls::client(Arc::new(self.client_config()), "localhost").unwrap()
    }
}

/// Echoes until the peer's end.
pub fn echo_server(world: &mut World, tls: Tls) -> Server {
    let serving = world.net.tcp_server("127.0.0.1:0").tls(tls);
    let serving = serving.serve_streams(async |mut reader, writer| {
        loop {
            let data = reader.read(65536).await?;
            if data.is_empty() {
                return io::Result::Ok(());
            }
            writer.write(&data);
            writer.drain().await?;
        }
    });
    world.block_on(serving).unwrap()
}

/// A server of probes behind TLS.
pub fn probe_server(world: &mut World, tls: Tls, probe: &Probe) -> Server {
    let probe = probe.clone();
    let serving = world.net.tcp_server("127.0.0.1:0").tls(tls).bind(move || probe.clone());
    world.block_on(serving).unwrap()
}

/// The stream of a client of this server.
pub fn open_stream(world: &mut World, server: &Server, tls: Tls) -> (StreamReader, StreamWriter) {
    let connecting = world.net.tcp_connect(server.local_addrs()[0]).tls(tls);
    world.block_on(connecting.open_stream()).unwrap()
}

/// A client whose handshake has begun with the socket's connection: the transport below.
pub fn begin(world: &mut World, addr: SocketAddr, tls: Tls, probe: &Probe) -> Transport {
    let given = probe.clone();
    let connecting = world.net.tcp_connect(addr).connect(move || tls.over(given));
    world.block_on(connecting).unwrap().0
}

/// A client of the engine alone, on a plain socket that the test drives.
pub struct RawClient {
    pub socket: TcpStream,
    pub tls: ClientConnection,
}

impl RawClient {
    pub fn new(identity: &Identity, addr: SocketAddr) -> RawClient {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let config = Arc::new(identity.client_config());
        let tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        RawClient { socket, tls }
    }

    /// Sends what there is in pieces of that size, with turns of the loop in between.
    pub fn send(&mut self, world: &mut World, piece: usize) {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).unwrap();
        }
        for piece in out.chunks(piece) {
            self.socket.write_all(piece).unwrap();
            world.turn();
        }
    }

    /// Reads what there is. `false` at the end of the connection.
    pub fn receive(&mut self, plain: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 16384];
        match self.socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                let mut data = &buffer[..count];
                while !data.is_empty() {
                    self.tls.read_tls(&mut data).unwrap();
                    self.tls.process_new_packets().unwrap();
                    let _ = self.tls.reader().read_to_end(plain);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        true
    }

    /// Encrypts and sends.
    pub fn say(&mut self, world: &mut World, words: &[u8]) {
        self.tls.writer().write_all(words).unwrap();
        self.send(world, usize::MAX);
    }

    /// Ends its side.
    pub fn say_goodbye(&mut self, world: &mut World) {
        self.tls.send_close_notify();
        self.send(world, usize::MAX);
    }

    /// Reads until there are so many bytes in the clear.
    pub fn hear(&mut self, world: &mut World, count: usize) -> Vec<u8> {
        let mut plain = Vec::new();
        while plain.len() < count {
            assert!(self.receive(&mut plain), "{} of {count} bytes", plain.len());
            world.turn();
        }
        plain
    }

    pub fn shake(&mut self, world: &mut World, piece: usize) {
        while self.tls.is_handshaking() || self.tls.wants_write() {
            self.send(world, piece);
            assert!(self.receive(&mut Vec::new()));
            world.turn();
        }
    }
}

/// A connection whose handshake is over: `probe` on our side, and a client of the engine alone. The server
/// that accepted it is closed already.
pub fn shaken(world: &mut World, probe: &Probe) -> (Transport, RawClient) {
    let server = probe_server(world, shared().server(), probe);
    let mut client = RawClient::new(shared(), server.local_addrs()[0]);
    client.shake(world, usize::MAX);
    world.until(|| probe.transport().is_some());
    server.close();
    world.turn();
    (probe.transport().unwrap(), client)
}

/// Turns of the loop until so many sockets are left.
pub fn until_registered(world: &mut World, count: usize) {
    let log = world.log.clone();
    world.until(|| log.registered() == count);
}

/// The identity of tests that do not care.
pub fn shared() -> &'static Identity {
    static SHARED: OnceLock<Identity> = OnceLock::new();
    SHARED.get_or_init(Identity::new)
}

/// The client of a TLS connection, in the clear: a thread of its own encrypts.
pub fn plain_client(connect: impl FnOnce() -> TcpStream + Send + 'static) -> Peer {
    let config = Arc::new(shared().client_config());
    let engine = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    Relay::start(engine.into(), connect)
}

/// As [`plain_client`], the server.
pub fn plain_server(accept: impl FnOnce() -> TcpStream + Send + 'static) -> Peer {
    let config = Arc::new(shared().server_config());
    Relay::start(ServerConnection::new(config).unwrap().into(), accept)
}

/// The thread that speaks TLS for a peer.
pub struct Relay {
    orders: File,
    thread: JoinHandle<()>,
}

impl Relay {
    fn start(engine: Connection, socket: impl FnOnce() -> TcpStream + Send + 'static) -> Peer {
        let (clear, peer) = UnixStream::pair().unwrap();
        let (heard, orders) = super::pipe();
        let thread = thread::spawn(move || {
            let secret = socket();
            // Whichever side goes first ends the other.
            if let Ok(End::Reset) = relay(engine, &secret, &clear, &heard) {
                return super::reset(secret);
            }
            drop(clear);
            // What is left unread would become a reset.
            let _ = secret.set_nonblocking(false);
            let _ = secret.shutdown(Shutdown::Write);
            let _ = io::copy(&mut &secret, &mut io::sink());
        });
        Peer::behind(peer, Relay { orders, thread })
    }

    /// Resets the connection, which must not have ended yet.
    pub fn reset(mut self) {
        self.orders.write_all(b"!").unwrap();
        self.thread.join().unwrap();
    }
}

enum End {
    Both,
    Reset,
}

/// Between a socket that carries TLS and one in the clear, until both directions have ended or one side is
/// gone, or a reset is ordered. Neither side is read while what it said before is not taken.
fn relay(
    mut engine: Connection,
    secret: &TcpStream,
    clear: &UnixStream,
    orders: &File,
) -> io::Result<End> {
    secret.set_nonblocking(true)?;
    clear.set_nonblocking(true)?;
    let (mut plain, mut chunk) = (Vec::new(), vec![0; 16 * 1024]);
    let (mut theirs_ended, mut ours_ended, mut told) = (false, false, false);
    let mut may_order = true;
    loop {
        if theirs_ended && plain.is_empty() && !told {
            told = true;
            clear.shutdown(Shutdown::Write)?;
        }
        if told && ours_ended && !engine.wants_write() {
            return Ok(End::Both);
        }
        let mut of_secret = PollFlags::empty();
        of_secret.set(PollFlags::IN, plain.is_empty() && !theirs_ended);
        of_secret.set(PollFlags::OUT, engine.wants_write());
        let mut of_clear = PollFlags::empty();
        let may_speak = !ours_ended && !engine.is_handshaking() && !engine.wants_write();
        of_clear.set(PollFlags::IN, may_speak);
        of_clear.set(PollFlags::OUT, !plain.is_empty());
        // Nothing is asked of a side that nothing is wanted from: it would say that it has hung up.
        let of_orders = if may_order { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = Vec::new();
        let watched = [(orders.as_fd(), of_orders), (secret.as_fd(), of_secret)];
        for (fd, wanted) in watched.into_iter().chain([(clear.as_fd(), of_clear)]) {
            if !wanted.is_empty() {
                fds.push(PollFd::from_borrowed_fd(fd, wanted));
            }
        }
        poll(&mut fds, None)?;
        if may_order && !fds[0].revents().is_empty() {
            if (&*orders).read(&mut [0])? > 0 {
                return Ok(End::Reset);
            }
            // Whoever could order it is gone.
            may_order = false;
        }
        drop(fds);
        if of_secret.contains(PollFlags::OUT) {
            unless_blocked(engine.write_tls(&mut &*secret))?;
        }
        if of_secret.contains(PollFlags::IN) {
            let read = unless_blocked(engine.read_tls(&mut &*secret))?;
            let state = engine.process_new_packets().map_err(io::Error::other)?;
            plain.resize(state.plaintext_bytes_to_read(), 0);
            engine.reader().read_exact(&mut plain)?;
            theirs_ended = read == Some(0) || state.peer_has_closed();
            if theirs_ended && !ours_ended {
                // As all do whose protocol cannot half-close.
                ours_ended = true;
                engine.send_close_notify();
            }
        }
        if of_clear.contains(PollFlags::OUT) {
            let sent = unless_blocked((&mut &*clear).write(&plain))?;
            plain.drain(..sent.unwrap_or(0));
        }
        if of_clear.contains(PollFlags::IN) && !ours_ended {
            match unless_blocked((&mut &*clear).read(&mut chunk))? {
                Some(0) => {
                    ours_ended = true;
                    engine.send_close_notify();
                }
                Some(count) => engine.writer().write_all(&chunk[..count])?,
                None => {}
            }
        }
    }
}

fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

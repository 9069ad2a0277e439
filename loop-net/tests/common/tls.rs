//! Both sides of TLS: certificates, servers, and a client that is only an engine.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use loop_net::{Server, Tls};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use super::{Probe, World};

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

    pub fn shake(&mut self, world: &mut World, piece: usize) {
        while self.tls.is_handshaking() || self.tls.wants_write() {
            self.send(world, piece);
            assert!(self.receive(&mut Vec::new()));
            world.turn();
        }
    }
}

/// Turns of the loop until so many sockets are left.
pub fn until_registered(world: &mut World, count: usize) {
    let log = world.log.clone();
    world.until(|| log.registered() == count);
}

//! An echo server behind TLS, and a client for it.
//!
//! `cargo run -p loop-net --example echo_tls --features tls -- 8443 cert.pem key.pem` serves; with `client
//! 127.0.0.1:8443 localhost ca.pem` behind the `--` it sends what it reads from standard input, once it has all of it,
//! and writes what comes back.
//!
//! A certificate to try it with, which is its own `ca.pem`:
//!
//! ```text
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem \
//!     -subj /CN=localhost -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE
//! ```

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loop_net::rustls::pki_types::pem::PemObject;
use loop_net::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use loop_net::rustls::{ClientConfig, RootCertStore, ServerConfig};
use loop_net::{LoopRef, Net, StreamReader, StreamWriter, Tls, run};

fn certificates(path: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(Path::new(path)).map_err(io::Error::other)?;
    found.collect::<Result<_, _>>().map_err(io::Error::other)
}

async fn echo(mut reader: StreamReader, writer: StreamWriter) -> io::Result<()> {
    let mut buffer = [0; 16384];
    loop {
        let count = reader.read_into(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        writer.write(&buffer[..count]);
        writer.drain().await?;
    }
}

async fn serve(port: &str, certificate: &str, key: &str) -> io::Result<()> {
    let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, key)
        .map_err(io::Error::other)?;
    let tls = Tls::server(Arc::new(config)).handshake_timeout(Duration::from_secs(10))?;
    let lp = LoopRef::current();
    let serving = Net::os(&lp).tcp_server(format!("127.0.0.1:{port}")).tls(tls);
    let server = serving.serve_streams(echo).await?;
    println!("listening on {}", server.local_addrs()[0]);
    server.serve_until_interrupted().await?;
    // Says goodbye to clients, which would take it for an attack if the connection just ended.
    server.close_clients();
    server.drain(Duration::from_secs(5)).await;
    Ok(())
}

async fn ask(addr: &str, name: &str, roots: &str) -> io::Result<()> {
    let mut store = RootCertStore::empty();
    for root in certificates(roots)? {
        store.add(root).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder().with_root_certificates(store).with_no_client_auth();
    let tls = Tls::client(Arc::new(config), name)?;
    let net = Net::os(&LoopRef::current());
    let (mut reader, writer) = net.tcp_connect(addr).tls(tls).open_stream().await?;
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let expected = input.len();
    // Both at once, or large inputs would fill both directions.
    let sending = loop_net::spawn(async move {
        for piece in input.chunks(65536) {
            writer.write(piece);
            writer.drain().await?;
        }
        io::Result::Ok(writer)
    });
    let answer = reader.read_exact(expected).await?;
    io::stdout().write_all(&answer)?;
    let writer = sending.await.map_err(io::Error::other)??;
    writer.close();
    writer.wait_closed().await
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["client", addr, name, roots] => run(ask(addr, name, roots))?,
        [port, certificate, key] => run(serve(port, certificate, key))?,
        _ => {
            Err(io::Error::other("usage: echo_tls PORT CERT KEY | echo_tls client ADDR NAME ROOTS"))
        }
    }
}

//! An axum `Router` behind TLS: HTTP/2 or HTTP/1, as client and server agree in the handshake, by ALPN.
//!
//! `cargo run -p loop-net --example https --features hyper,tls -- 8443 cert.pem key.pem`, then
//! `curl --cacert cert.pem https://localhost:8443/hello/you`. `ci/interop/http.py` has curl speak both;
//! `echo_tls` says how to make a certificate to try it with.
//!
//! Ctrl-C shuts it down in order: what is being answered is answered, idle connections are told goodbye.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use futures_util::future::{Either, select};
use hyper::server::conn::{http1, http2};
use hyper_util::service::TowerToHyperService;
use loop_net::loop_core::sync::Event;
use loop_net::rustls::ServerConfig;
use loop_net::rustls::pki_types::pem::PemObject;
use loop_net::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use loop_net::{
    HyperExecutor, HyperIo, HyperTimer, LoopRef, Net, StreamReader, StreamWriter, Tls, run,
};

fn router() -> Router {
    Router::new()
        .route("/", get(async || "an axum router behind TLS\n"))
        .route("/hello/{name}", get(async |Path(name): Path<String>| format!("hello {name}\n")))
        .route("/echo", post(async |body: axum::body::Bytes| body))
        .layer(axum::extract::DefaultBodyLimit::disable())
}

fn tls(certificates: &str, key: &str) -> io::Result<Tls> {
    let chain = CertificateDer::pem_file_iter(certificates).map_err(io::Error::other)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(io::Error::other)?;
    // What is liked best comes first.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Tls::server(Arc::new(config)).handshake_timeout(Duration::from_secs(10))
}

/// Drives a connection to its end, and tells it when the server closes.
async fn drive<C: Future>(connection: C, closing: &Event, tell: fn(Pin<&mut C>)) -> C::Output {
    let mut connection = pin!(connection);
    match select(connection.as_mut(), pin!(closing.wait())).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => {
            tell(connection.as_mut());
            connection.await
        }
    }
}

async fn serve(
    router: Router,
    closing: Rc<Event>,
    reader: StreamReader,
    writer: StreamWriter,
) -> Result<(), hyper::Error> {
    let agreed = writer.transport().tls_info().and_then(|info| info.alpn);
    let (io, service) = (HyperIo::new(reader, writer), TowerToHyperService::new(router));
    if agreed.as_deref() == Some(b"h2") {
        let mut http = http2::Builder::new(HyperExecutor);
        let connection = http.timer(HyperTimer).serve_connection(io, service);
        drive(connection, &closing, |it| it.graceful_shutdown()).await
    } else {
        let connection = http1::Builder::new().timer(HyperTimer).serve_connection(io, service);
        drive(connection, &closing, |it| it.graceful_shutdown()).await
    }
}

async fn listen(port: &str, certificates: &str, key: &str) -> io::Result<()> {
    let net = Net::os(&LoopRef::current());
    let (router, closing) = (router(), Rc::new(Event::new()));
    let told = closing.clone();
    let serving = net.tcp_server(format!("127.0.0.1:{port}")).tls(tls(certificates, key)?);
    let serving = serving.serve_streams(async move |reader, writer| {
        // Clients come and go as they like.
        let _ = serve(router.clone(), told.clone(), reader, writer).await;
    });
    let server = serving.await?;
    println!("listening on {}", server.local_addrs()[0]);
    server.serve_until_interrupted().await?;
    closing.set();
    server.drain(Duration::from_secs(5)).await;
    Ok(())
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [port, certificates, key] => run(listen(port, certificates, key))?,
        _ => Err(io::Error::other("usage: https PORT CERTIFICATES KEY")),
    }
}

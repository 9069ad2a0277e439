//! An axum `Router`, served by this loop: HTTP/1 with upgrades, and HTTP/2 with prior knowledge.
//!
//! `cargo run -p loop-net --example axum_router --features hyper -- 8080`, then `curl localhost:8080/hello/you`.

use std::io;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};
use hyper::server::conn::{http1, http2};
use hyper_util::service::TowerToHyperService;
use loop_net::{HyperExecutor, HyperIo, HyperTimer, LoopRef, Net, StreamReader, StreamWriter, run};

/// What every connection over HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn router() -> Router {
    Router::new()
        .route("/", get(async || "an axum router on one thread\n"))
        .route("/hello/{name}", get(async |Path(name): Path<String>| format!("hello {name}\n")))
        .route("/echo", post(async |body: axum::body::Bytes| body))
        .layer(axum::extract::DefaultBodyLimit::disable())
}

/// Whether it is HTTP/2 is seen from its first bytes, which stay in the stream.
async fn is_http_2(reader: &mut StreamReader) -> io::Result<bool> {
    std::future::poll_fn(|cx| {
        let bytes = std::task::ready!(futures_io::AsyncBufRead::poll_fill_buf(
            std::pin::Pin::new(&mut *reader),
            cx
        ))?;
        // No request of HTTP/1 begins with the method PRI.
        let count = bytes.len().min(3);
        std::task::Poll::Ready(Ok(count == 3 && bytes[..3] == PREFACE[..3]))
    })
    .await
}

async fn serve(router: Router, mut reader: StreamReader, writer: StreamWriter) -> io::Result<()> {
    let http_2 = is_http_2(&mut reader).await?;
    let (io, service) = (HyperIo::new(reader, writer), TowerToHyperService::new(router));
    let served = if http_2 {
        http2::Builder::new(HyperExecutor).timer(HyperTimer).serve_connection(io, service).await
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(HyperTimer).serve_connection(io, service).with_upgrades().await
    };
    served.map_err(io::Error::other)
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".to_owned());
    run(async move {
        let lp = LoopRef::current();
        let router = router();
        let serving = Net::os(&lp).tcp_server(format!("127.0.0.1:{port}")).serve_streams(
            async move |reader, writer| {
                // Clients come and go as they like.
                let _ = serve(router.clone(), reader, writer).await;
            },
        );
        let server = serving.await?;
        println!("listening on {}", server.local_addrs()[0]);
        server.serve_until_interrupted().await?;
        server.drain(std::time::Duration::from_secs(1)).await;
        Ok(())
    })?
}

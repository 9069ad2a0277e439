//! A WebSocket beside the other routes of an axum `Router`: every message comes back.
//!
//! `cargo run -p loop-net --example axum_websocket --features hyper,tokio-io -- 8080`, then open `ws://localhost:8080/echo`.
//!
//! axum's own extractor, `WebSocketUpgrade`, spawns its socket on tokio, and panics where tokio does not run. So
//! the handshake is answered here, and the connection taken over from hyper, on this loop.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{SinkExt, StreamExt};
use hyper::server::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::service::TowerToHyperService;
use loop_net::{HyperIo, HyperTimer, LoopRef, Net, run, spawn};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

type Failure = Box<dyn std::error::Error>;

/// The key of a request for a WebSocket, in the version that there is.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let is =
        |name, value: &str| headers.get(name).is_some_and(|it| it.as_bytes() == value.as_bytes());
    let asked = headers.get(header::UPGRADE)?.as_bytes().eq_ignore_ascii_case(b"websocket");
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?.as_bytes();
    (asked && is(header::SEC_WEBSOCKET_VERSION, "13")).then_some(key)
}

async fn websocket(mut request: Request) -> Response {
    let Some(accept) = key(request.headers()).map(derive_accept_key) else {
        return (StatusCode::BAD_REQUEST, "this is for WebSockets\n").into_response();
    };
    // Done when the answer below has gone out.
    let upgrade = hyper::upgrade::on(&mut request);
    drop(spawn(async {
        if let Err(error) = echo(upgrade).await {
            println!("a client is gone: {error}");
        }
    }));
    let headers = [
        (header::CONNECTION, "upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_ACCEPT, &accept),
    ];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn echo(upgrade: OnUpgrade) -> Result<(), Failure> {
    let parts = upgrade.await?.downcast::<HyperIo>().map_err(|_| "no connection of ours")?;
    let (reader, writer) = parts.io.into_inner();
    let stream = tokio::io::join(reader, writer);
    let early = parts.read_buf.to_vec();
    let mut socket = WebSocketStream::from_partially_read(stream, early, Role::Server, None).await;
    while let Some(message) = socket.next().await {
        let message = message?;
        // Pings and closing are answered by tungstenite.
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".to_owned());
    run(async move {
        let net = Net::os(&LoopRef::current());
        let router = Router::new()
            .route("/", get(async || "a WebSocket is at /echo\n"))
            .route("/echo", get(websocket));
        let serving = net.tcp_server(format!("127.0.0.1:{port}")).serve_streams(
            async move |reader, writer| {
                let service = TowerToHyperService::new(router.clone());
                let mut http = http1::Builder::new();
                let connection =
                    http.timer(HyperTimer).serve_connection(HyperIo::new(reader, writer), service);
                // Clients come and go as they like.
                let _ = connection.with_upgrades().await;
            },
        );
        let server = serving.await?;
        println!("listening on {}", server.local_addrs()[0]);
        server.serve_until_interrupted().await?;
        server.drain(Duration::from_secs(1)).await;
        Ok(())
    })?
}

//! hyper, on this project's loop and on tokio's current-thread runtime: a few bytes for whoever asks.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use loop_core::EventLoop;
use loop_net::{HyperIo, HyperTimer, Net};
use loop_selector::by_name;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::echo_server::{Ready, Serve};
use super::loop_net::serve;
use super::tokio::runtime;

pub(crate) const BODY: &str = "hello, world\n";

type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// The same service for both; it counts.
fn answer(_request: Request<Incoming>, served: &AtomicU64) -> std::future::Ready<Answer> {
    served.fetch_add(1, Ordering::Relaxed);
    std::future::ready(Ok(Response::new(Full::new(Bytes::from_static(BODY.as_bytes())))))
}

/// A task for each connection, on a loop with the selector of that name.
pub(crate) fn on_loop_net(selector: &'static str) -> Serve {
    Arc::new(move |ready: Ready| {
        let mut event_loop = EventLoop::builder().selector(by_name(selector)?).build()?;
        let served = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&served);
        let handler = async move |reader, writer| {
            let service = service_fn(|request| answer(request, &count));
            // A client that goes in the middle of a request is its own business.
            let mut builder = http1::Builder::new();
            builder.timer(HyperTimer);
            _ = builder.serve_connection(HyperIo::new(reader, writer), service).await;
        };
        let listening = Net::os(&event_loop).tcp_server("127.0.0.1:0").serve_streams(handler);
        let server = event_loop.run_until_complete(listening)??;
        serve(&mut event_loop, &server, ready)?;
        Ok(served.load(Ordering::Relaxed))
    })
}

/// A task for each connection.
pub(crate) fn on_tokio(ready: Ready) -> io::Result<u64> {
    let served = Arc::new(AtomicU64::new(0));
    runtime()?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (stop, stopped) = oneshot::channel();
        ready.announce(listener.local_addr()?, move || _ = stop.send(()));
        let count = Arc::clone(&served);
        drop(tokio::spawn(async move {
            while let Ok((stream, _peer)) = listener.accept().await {
                _ = stream.set_nodelay(true);
                let count = Arc::clone(&count);
                drop(tokio::spawn(async move {
                    let service = service_fn(|request| answer(request, &count));
                    let mut builder = http1::Builder::new();
                    builder.timer(TokioTimer::new());
                    _ = builder.serve_connection(TokioIo::new(stream), service).await;
                }));
            }
        }));
        // A closed channel stops as well: the starter has gone.
        _ = stopped.await;
        io::Result::Ok(())
    })?;
    Ok(served.load(Ordering::Relaxed))
}

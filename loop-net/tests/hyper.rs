//! hyper on this loop, from both sides.
#![cfg(feature = "hyper")]

mod common;

use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::{World, for_each_backend, is_open, temp_dir};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use loop_core::{spawn, timeout};
use loop_net::{HyperExecutor, HyperIo, HyperTimer, Server};

type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// Echoes the body; `/drop` ends the process's connection by an error elsewhere.
async fn echo(request: Request<Incoming>) -> Answer {
    let body = request.into_body().collect().await.map(|body| body.to_bytes());
    Ok(Response::new(Full::new(body.unwrap_or_default())))
}

fn serve1(world: &mut World, header_timeout: Duration) -> Server {
    let serving = world.net.tcp_server("127.0.0.1:0").serve_streams(async move |reader, writer| {
        let mut builder = http1::Builder::new();
        builder.timer(HyperTimer).header_read_timeout(header_timeout);
        // Clients that are cut off are no failure of the server's.
        let _ = builder.serve_connection(HyperIo::new(reader, writer), service_fn(echo)).await;
    });
    world.block_on(serving).unwrap()
}

fn request(body: &[u8]) -> Request<Full<Bytes>> {
    Request::post("/")
        .header(header::HOST, "localhost")
        .body(Full::new(body.to_vec().into()))
        .unwrap()
}

#[test]
fn http_1_requests_share_a_connection() {
    for_each_backend(|world| {
        let server = serve1(world, Duration::from_secs(30));
        let (net, addr) = (world.net.clone(), server.local_addrs()[0]);
        world.block_on(async move {
            let (reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
            let io = HyperIo::new(reader, writer);
            let (mut sender, connection) = client1::handshake(io).await.unwrap();
            let connection = spawn(connection);
            for size in [0, 1, 1_000, 3_000_000] {
                let body = vec![size as u8; size];
                sender.ready().await.unwrap();
                let answer = sender.send_request(request(&body)).await.unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
                assert!(answer.into_body().collect().await.unwrap().to_bytes() == body);
            }
            drop(sender);
            connection.await.unwrap().unwrap();
        });
        server.close();
        world.block_on(server.wait_closed());
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn http_2_streams_run_side_by_side() {
    for_each_backend(|world| {
        let serving = world.net.tcp_server("127.0.0.1:0").serve_streams(async |reader, writer| {
            let mut builder = http2::Builder::new(HyperExecutor);
            builder.timer(HyperTimer).keep_alive_interval(Duration::from_secs(20));
            builder.serve_connection(HyperIo::new(reader, writer), service_fn(echo)).await
        });
        let server = world.block_on(serving).unwrap();
        let (net, addr) = (world.net.clone(), server.local_addrs()[0]);
        world.block_on(async move {
            let (reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
            let io = HyperIo::new(reader, writer);
            let (sender, connection) = client2::handshake(HyperExecutor, io).await.unwrap();
            let connection = spawn(connection);
            let requests: Vec<_> = (0..20)
                .map(|index| {
                    let mut sender = sender.clone();
                    spawn(async move {
                        let body = vec![index as u8; 100_000];
                        let request = Request::post("http://localhost/")
                            .body(Full::new(Bytes::from(body.clone())));
                        let answer = sender.send_request(request.unwrap()).await.unwrap();
                        assert!(answer.into_body().collect().await.unwrap().to_bytes() == body);
                    })
                })
                .collect();
            for request in requests {
                request.await.unwrap();
            }
            drop(sender);
            connection.await.unwrap().unwrap();
        });
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn http_runs_over_unix_sockets() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("http");
        let serving =
            world.net.unix_server(path.as_path()).serve_streams(async |reader, writer| {
                let io = HyperIo::new(reader, writer);
                http1::Builder::new().serve_connection(io, service_fn(echo)).await
            });
        let server = world.block_on(serving).unwrap();
        let connecting = world.net.unix_connect(path.as_path()).open_stream();
        world.block_on(async move {
            let (reader, writer) = connecting.await.unwrap();
            let (mut sender, connection) =
                client1::handshake(HyperIo::new(reader, writer)).await.unwrap();
            let connection = spawn(connection);
            let answer = sender.send_request(request(b"through a file")).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(&body[..], b"through a file");
            drop(sender);
            connection.await.unwrap().unwrap();
        });
        server.close();
        world.block_on(server.wait_closed());
    });
}

/// Serves and asks in the version that both sides have agreed on.
#[test]
#[cfg(feature = "tls")]
fn http_over_tls_speaks_the_version_that_was_agreed_on() {
    use common::tls::Identity;
    use loop_net::Tls;
    use std::sync::Arc;

    let identity = Identity::new();
    for_each_backend(|world| {
        let mut config = identity.server_config();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let serving = world.net.tcp_server("127.0.0.1:0").tls(Tls::server(Arc::new(config)));
        let serving = serving.serve_streams(async |reader, writer| {
            let agreed = writer.transport().tls_info().unwrap().alpn;
            let io = HyperIo::new(reader, writer);
            if agreed.as_deref() == Some(b"h2") {
                let http = http2::Builder::new(HyperExecutor);
                http.serve_connection(io, service_fn(echo)).await
            } else {
                http1::Builder::new().serve_connection(io, service_fn(echo)).await
            }
        });
        let server = world.block_on(serving).unwrap();
        let body = vec![9; 300_000];
        for offered in [&[&b"h2"[..], b"http/1.1"][..], &[b"http/1.1"], &[]] {
            let mut config = identity.client_config();
            config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            let tls = Tls::client(Arc::new(config), "localhost").unwrap();
            let connecting = world.net.tcp_connect(server.local_addrs()[0]).tls(tls);
            let (reader, writer) = world.block_on(connecting.open_stream()).unwrap();
            let agreed = writer.transport().tls_info().unwrap().alpn;
            assert_eq!(agreed.as_deref(), offered.first().copied());
            let io = HyperIo::new(reader, writer);
            let answer = world.block_on(async {
                if agreed.as_deref() == Some(b"h2") {
                    let (mut sender, connection) =
                        client2::handshake(HyperExecutor, io).await.unwrap();
                    spawn(connection).detach();
                    let request = Request::post("https://localhost/")
                        .body(Full::new(Bytes::from(body.clone())))
                        .unwrap();
                    sender.send_request(request).await.unwrap()
                } else {
                    let (mut sender, connection) = client1::handshake(io).await.unwrap();
                    spawn(connection).detach();
                    sender.send_request(request(&body)).await.unwrap()
                }
            });
            let version = if agreed.as_deref() == Some(b"h2") { "HTTP/2.0" } else { "HTTP/1.1" };
            assert_eq!(format!("{:?}", answer.version()), version);
            let came = world.block_on(answer.into_body().collect()).unwrap().to_bytes();
            assert!(came == body);
        }
        server.close();
        server.close_clients();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn an_upgraded_connection_carries_other_bytes() {
    for_each_backend(|world| {
        let serving = world.net.tcp_server("127.0.0.1:0").serve_streams(async |reader, writer| {
            let upgrade = service_fn(async |mut request: Request<Incoming>| {
                let upgraded = hyper::upgrade::on(&mut request);
                spawn(async move {
                    let io = upgraded.await.unwrap().downcast::<HyperIo>().unwrap();
                    let (mut reader, writer) = io.io.into_inner();
                    assert_eq!(io.read_buf, Bytes::new());
                    while let Some(line) = reader.read_line().await.unwrap() {
                        writer.write(&line);
                    }
                })
                .detach();
                let mut answer = Response::new(Full::new(Bytes::new()));
                *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                answer
                    .headers_mut()
                    .insert(header::UPGRADE, header::HeaderValue::from_static("lines"));
                Ok::<_, Infallible>(answer)
            });
            let io = HyperIo::new(reader, writer);
            http1::Builder::new().serve_connection(io, upgrade).with_upgrades().await
        });
        let server = world.block_on(serving).unwrap();
        let (net, addr) = (world.net.clone(), server.local_addrs()[0]);
        world.block_on(async move {
            let (mut reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: lines\r\n\r\n");
            let head = reader.read_until(b"\r\n\r\n").await.unwrap();
            assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
            for line in [&b"one\n"[..], b"two\n"] {
                writer.write(line);
                assert_eq!(reader.read_line().await.unwrap().unwrap(), line);
            }
            drop(writer);
            assert_eq!(reader.read_line().await.unwrap(), None);
        });
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn a_client_that_trickles_its_header_is_cut_off_and_others_are_served() {
    for_each_backend(|world| {
        // Those who are served have as long.
        let limit = Duration::from_millis(500);
        let server = serve1(world, limit);
        let addr = server.local_addrs()[0];
        let slow = std::net::TcpStream::connect(addr).unwrap();
        let start = Instant::now();
        let mut served = 0;
        let net = world.net.clone();
        let mut trickle = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
            .iter()
            .cycle();
        slow.set_nonblocking(true).unwrap();
        loop {
            let _ = std::io::Write::write(&mut &slow, &[*trickle.next().unwrap()]);
            let (net, body) = (net.clone(), Rc::new([1u8; 10]));
            world.block_on(async move {
                let (reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
                let (mut sender, connection) =
                    client1::handshake(HyperIo::new(reader, writer)).await.unwrap();
                spawn(connection).detach();
                let answer = sender.send_request(request(&*body));
                let answer = timeout(Duration::from_secs(20), answer).await.unwrap().unwrap();
                assert_eq!(answer.status(), StatusCode::OK);
            });
            served += 1;
            if !is_open(&slow) {
                break;
            }
        }
        assert!(start.elapsed() >= limit && served > 1);
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn a_stream_that_is_dropped_elsewhere_is_closed() {
    fn send<T: Send + 'static>(it: T) -> T {
        it
    }
    for_each_backend(|world| {
        let server = serve1(world, Duration::from_secs(30));
        let connecting = world.net.tcp_connect(server.local_addrs()[0]).open_stream();
        let (reader, writer) = world.block_on(connecting).unwrap();
        let io = send(HyperIo::new(reader, writer));
        world.idle();
        std::thread::spawn(move || drop(io)).join().unwrap();
        server.close();
        world.block_on(server.wait_closed());
        let log = world.log.clone();
        world.until(|| log.registered() == 0);
    });
}

//! hyper on this project's loop beside hyper on tokio, under `wrk`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::bar::Bar;
use crate::client::PATIENCE;
use crate::finding::Finding;
use crate::rival::echo_server::{EchoServer, Serve};
use crate::rival::{http, loop_selector};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

const CONNECTIONS: u64 = 64;

pub(super) const BARS: &[Bar] = &[bar("http/hello", 1.0 / 0.95), bar("http/hello_cpu", 1.0)];

const fn bar(workload: &'static str, at_most: f64) -> Bar {
    Bar { workload, params: &[], ours: "loop-net/epoll", rivals: &["tokio"], at_most }
}

/// By the clock, and by the processor time of the server's thread. None without `wrk`.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    if !has_wrk() {
        return Vec::new();
    }
    let seconds = plan.size(1, 3);
    let contest = |name, pick: fn(Laps) -> Lap| {
        let subject = |(name, serve): (String, Serve)| {
            Subject::new(name, move |_seed| round(&serve, seconds).map(pick))
        };
        let subjects = servers().into_iter().map(subject).collect();
        Contest::new(name, &[("connections", CONNECTIONS)], subjects)
    };
    vec![contest("http/hello", |laps| laps.wall), contest("http/hello_cpu", |laps| laps.processor)]
}

/// What is missing here, and how to get it.
pub(super) fn absences(_plan: &Plan) -> Vec<Finding> {
    let why = || "wrk is not installed; try apt-get install wrk".to_owned();
    let missing = (!has_wrk()).then(|| Finding::NotMeasured { what: "http".into(), why: why() });
    missing.into_iter().collect()
}

fn has_wrk() -> bool {
    Command::new("wrk").arg("--version").output().is_ok()
}

fn servers() -> Vec<(String, Serve)> {
    let ours = loop_selector::usable().take(1);
    let ours = ours.map(|name| (format!("loop-net/{name}"), http::on_loop_net(name)));
    ours.chain([("tokio".into(), Arc::new(http::on_tokio) as Serve)]).collect()
}

/// What a round took.
struct Laps {
    wall: Lap,
    processor: Lap,
}

/// `wrk` decides how many requests there are; the server counts them too.
fn round(serve: &Serve, seconds: u64) -> Result<Laps, Wrong> {
    let server = EchoServer::start(serve)?;
    let found = right(server.address).and_then(|()| wrk(server.address, seconds));
    let served = server.finish()?;
    let tally = found?;
    // One asked whether the answer is right, and at the end each connection has one under way.
    if !(tally.requests..=tally.requests + 1 + CONNECTIONS).contains(&served.bytes) {
        let Tally { requests, .. } = tally;
        return Err(Wrong(format!("{} answers to {requests} requests", served.bytes)));
    }
    let wall = Lap { elapsed: tally.elapsed, ops: tally.requests };
    Ok(Laps { wall, processor: Lap { elapsed: served.processor, ops: served.bytes } })
}

/// `wrk` looks at the status only.
fn right(server: SocketAddr) -> Result<(), Wrong> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map(|(_head, body)| body);
    Wrong::unless_equal("body", body, Some(http::BODY))
}

/// What `wrk` has counted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tally {
    requests: u64,
    elapsed: Duration,
}

fn wrk(server: SocketAddr, seconds: u64) -> Result<Tally, Wrong> {
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{seconds}s")])
        // By itself it takes answers after two seconds for failures.
        .args(["--timeout", &format!("{}s", PATIENCE.as_secs())])
        .arg(format!("http://{server}/"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let tally = tally(&text).filter(|_| output.status.success());
    tally.ok_or_else(|| {
        Wrong(format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr)))
    })
}

/// Reads what `wrk` prints; `None` if any request has failed.
fn tally(text: &str) -> Option<Tally> {
    if text.contains("Socket errors") || text.contains("Non-2xx") {
        return None;
    }
    let requests = text.lines().find_map(|line| line.split_once(" requests in "))?.0;
    let requests = requests.trim().parse().ok().filter(|count| *count > 0)?;
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:"))?;
    let rate: f64 = rate.trim().parse().ok()?;
    Some(Tally { requests, elapsed: Duration::try_from_secs_f64(requests as f64 / rate).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  \
        Thread Stats   Avg      Stdev     Max   +/- Stdev\n  200 requests in 2.00s, 1.10MB read\n\
        Requests/sec:    100.00\nTransfer/sec:    563.20KB\n";

    #[test]
    fn what_wrk_prints_is_read_unless_a_request_failed() {
        let right = Tally { requests: 200, elapsed: Duration::from_secs(2) };
        assert_eq!(tally(PRINTED), Some(right));
        let errors = "  Socket errors: connect 0, read 1, write 0, timeout 0\nRequests";
        assert_eq!(tally(&PRINTED.replace("Requests", errors)), None);
        let errors = "  Non-2xx or 3xx responses: 1\nRequests";
        assert_eq!(tally(&PRINTED.replace("Requests", errors)), None);
        assert_eq!(tally(&PRINTED.replace("200 requests", "0 requests")), None);
        assert_eq!(tally("unable to connect"), None);
    }

    #[test]
    fn every_server_answers_rightly_and_counts() {
        for (name, serve) in servers() {
            let server = EchoServer::start(&serve).unwrap();
            right(server.address).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            right(server.address).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(server.finish().unwrap().bytes, 2, "{name}");
        }
    }

    #[test]
    fn wrk_and_the_server_agree() {
        if has_wrk() {
            let (name, serve) = servers().swap_remove(0);
            let laps = round(&serve, 1).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert!(laps.wall.ops > 0 && laps.processor.elapsed > Duration::ZERO);
        }
    }
}

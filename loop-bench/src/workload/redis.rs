//! The key-value server of loop-net's examples beside `redis-server`, under `redis-benchmark`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::bar::Bar;
use crate::child::{ServerProcess, built};
use crate::client::PATIENCE;
use crate::finding::Finding;
use crate::rival::loop_selector;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

const CLIENTS: u64 = 50;
const TESTS: &str = "ping_inline,ping_mbulk,set,get";
/// What the example is told if its requests are not to gather, as they do by its default.
const AT_ONCE: &[&str] = &["0"];
/// The key that `redis-benchmark` sets.
const QUESTION: &[u8] = b"PING\r\nGET key:__rand_int__\r\n";

pub(super) const BARS: &[Bar] = &[
    bar("redis/requests", &[("clients", CLIENTS), ("pipeline", 1)], 1.0 / 0.95),
    bar("redis/requests", &[("clients", CLIENTS), ("pipeline", 16)], 1.0 / 1.1),
    bar("redis/requests_cpu", &[("clients", CLIENTS), ("pipeline", 1)], 1.0),
    bar("redis/requests_cpu", &[("clients", CLIENTS), ("pipeline", 16)], 0.85),
];

const fn bar(workload: &'static str, params: &'static [(&'static str, u64)], at_most: f64) -> Bar {
    Bar { workload, params, ours: "loop-net/epoll", rivals: &["redis-server"], at_most }
}

/// By the clock, and by the processor time of the server. None where a program is missing.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let Ok(example) = programs() else { return Vec::new() };
    let contest = |name, (pipeline, requests), pick: fn(Laps) -> Lap| {
        let load = Load { pipeline, requests };
        let ways = loop_selector::usable().take(1);
        let ways =
            ways.flat_map(|selector| [(selector, "", &[][..]), (selector, " at once", AT_ONCE)]);
        let mut subjects: Vec<Subject> = ways
            .map(|(selector, way, args)| {
                let program = example.clone();
                let ours = move |port: u16| {
                    let mut command = Command::new(&program);
                    command.arg(port.to_string()).args(args).env("LOOP_SELECTOR", selector);
                    command
                };
                subject(format!("loop-net/{selector}{way}"), ours, load, pick)
            })
            .collect();
        subjects.push(subject("redis-server".into(), redis_server, load, pick));
        Contest::new(name, &[("clients", CLIENTS), ("pipeline", pipeline)], subjects)
    };
    let loads = plan.size([(1, 5_000), (16, 50_000)], [(1, 50_000), (16, 300_000)]);
    let by_clock = loads.map(|load| contest("redis/requests", load, |laps| laps.wall));
    let by_cost = loads.map(|load| contest("redis/requests_cpu", load, |laps| laps.processor));
    by_clock.into_iter().chain(by_cost).collect()
}

/// What is missing here, and how to get it.
pub(super) fn absences(_plan: &Plan) -> Vec<Finding> {
    let missing = |why| Finding::NotMeasured { what: "redis".into(), why };
    programs().err().map(missing).into_iter().collect()
}

/// Our server, if all there has to be is there.
fn programs() -> Result<PathBuf, String> {
    for program in ["redis-server", "redis-benchmark"] {
        if Command::new(program).arg("--version").output().is_err() {
            let how = "try apt-get install redis-server redis-tools";
            return Err(format!("{program} is not installed; {how}"));
        }
    }
    let how = "try cargo build --release -p loop-net --example redis_server";
    built("examples/redis_server").map_err(|error| format!("{error}; {how}"))
}

fn redis_server(port: u16) -> Command {
    let mut command = Command::new("redis-server");
    // It listens on this machine alone and writes nothing, as ours.
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"]);
    command.arg(port.to_string());
    command
}

fn subject(
    name: String,
    command: impl Fn(u16) -> Command + Clone + Send + 'static,
    load: Load,
    pick: fn(Laps) -> Lap,
) -> Subject {
    let mut server = None;
    Subject::new(name, move |_seed| {
        let running = match server.take() {
            Some(running) => running,
            None => ServerProcess::start(command.clone())?,
        };
        load.run(server.insert(running)).map(pick)
    })
    .elsewhere()
}

#[derive(Clone, Copy)]
struct Load {
    pipeline: u64,
    /// Of each test.
    requests: u64,
}

/// What a round took.
#[derive(Debug)]
struct Laps {
    wall: Lap,
    processor: Lap,
}

impl Load {
    fn run(&self, server: &ServerProcess) -> Result<Laps, Wrong> {
        let before = server.processor()?;
        let output = Command::new("redis-benchmark")
            .args(["-t", TESTS, "--csv", "-p", &server.address.port().to_string()])
            .args(["-c", &CLIENTS.to_string(), "-P", &self.pipeline.to_string()])
            .args(["-n", &self.requests.to_string()])
            .output()?;
        let processor = server.processor()? - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let wall = elapsed(&text, self.requests).filter(|_| output.status.success());
        let wall = wall.ok_or_else(|| {
            Wrong(format!("{}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr)))
        })?;
        still_right(server.address)?;
        let ops = self.requests * TESTS.split(',').count() as u64;
        let lap = |elapsed| Lap { elapsed, ops };
        Ok(Laps { wall: lap(wall), processor: lap(processor) })
    }
}

/// The time of all tests together, from the requests a second that `redis-benchmark` tells of each. `None` if
/// it tells of an error, or not of all.
fn elapsed(csv: &str, requests: u64) -> Option<Duration> {
    let rates = csv.lines().skip(1).map(|line| {
        let (_test, rest) = line.strip_prefix('"')?.split_once("\",\"")?;
        rest.split('"').next()?.parse::<f64>().ok().filter(|rate| *rate > 0.0)
    });
    let times: Vec<f64> = rates.map(|rate| Some(requests as f64 / rate?)).collect::<Option<_>>()?;
    let all = times.len() == TESTS.split(',').count();
    all.then(|| Duration::from_secs_f64(times.iter().sum()))
}

/// `redis-benchmark` does not look at what it gets. After a run, the server must know what was set.
fn still_right(address: SocketAddr) -> Result<(), Wrong> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(QUESTION)?;
    let mut answer = [0; "+PONG\r\n$3\r\nxxx\r\n".len()];
    stream.read_exact(&mut answer)?;
    let value = answer.strip_prefix(b"+PONG\r\n$3\r\n").and_then(|rest| rest.strip_suffix(b"\r\n"));
    Wrong::unless_equal("answer", value.map(<[u8]>::len), Some(3))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const HEAD: &str = "\"test\",\"rps\",\"avg_latency_ms\"\n";

    #[test]
    fn rates_become_the_time_of_all_tests() {
        let row = |name: &str, rate: &str| format!("\"{name}\",\"{rate}\",\"0.1\"\n");
        let three = [row("PING_INLINE", "1000.00"), row("PING_MBULK", "500.00"), row("SET", "250")];
        let all = format!("{HEAD}{}{}", three.concat(), row("GET", "1000.00"));
        assert_eq!(elapsed(&all, 1_000), Some(Duration::from_secs(1 + 2 + 4 + 1)));
        assert_eq!(elapsed(&format!("{HEAD}{}", three.concat()), 1_000), None);
        assert_eq!(elapsed(&format!("{HEAD}{}{}", three.concat(), row("GET", "0")), 1_000), None);
        assert_eq!(elapsed(&format!("{all}Error from server\n"), 1_000), None);
        assert_eq!(elapsed("", 1_000), None);
    }

    #[test]
    fn a_wrong_answer_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            for answer in
                [&b"+PONG\r\n$3\r\nVXK\r\n"[..], b"+PONG\r\n-ERR nothing\r\n", b"+PONG\r\n$-1\r\n"]
            {
                let (mut stream, _peer) = listener.accept().unwrap();
                stream.read_exact(&mut [0; QUESTION.len()]).unwrap();
                stream.write_all(answer).unwrap();
            }
        });
        assert_eq!(still_right(address), Ok(()));
        assert!(still_right(address).is_err());
        assert!(still_right(address).is_err());
        serving.join().unwrap();
    }

    #[test]
    fn every_server_is_measured_where_it_is() {
        let Ok(_example) = programs() else { return };
        let plan = Plan::quick(1);
        let subjects = contests(&plan).into_iter().take(1).flat_map(Contest::into_subjects);
        for mut subject in subjects {
            let lap =
                subject.round(1).unwrap_or_else(|wrong| panic!("{}: {wrong}", subject.name()));
            assert!(lap.elapsed > Duration::ZERO && lap.ops >= 20_000, "{}", subject.name());
        }
    }
}

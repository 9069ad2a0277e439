//! Echo servers at a set rate: how long an answer takes, counted from when its request was due.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::echo_servers::{protocols, rivals, threads};
use crate::latency::{Latencies, Schedule};
use crate::rival::echo_server::{EchoServer, Serve};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};
use crate::traffic::{Pace, Traffic};

const CONNECTIONS: usize = 64;
const BYTES: usize = 64;

/// The rounds are 99th percentiles; the curve is of the requests of all rounds.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let duration = plan.size(Duration::from_millis(400), Duration::from_secs(1));
    let rates: &[u64] = plan.size(&[10_000], &[5_000, 20_000, 50_000]);
    let contest = |&rate: &u64| {
        let params = [("rate", rate), ("connections", CONNECTIONS as u64)];
        let subject = |(name, serve): (String, Serve)| {
            let recorded = Rc::new(RefCell::new(Latencies::new()));
            let latencies = Rc::clone(&recorded);
            let round = move |seed| {
                let pace = Pace::Open(Schedule::per_second(rate as f64));
                let (connections, bytes) = (CONNECTIONS, BYTES);
                let traffic = Traffic { connections, bytes, pace, duration, seed };
                let round = round(&serve, &traffic)?;
                latencies.borrow_mut().merge(&round);
                Ok(Lap { elapsed: round.at(0.99), ops: 1 })
            };
            Subject::new(name, round).recording(recorded)
        };
        Contest::new("latency/p99", &params, servers().map(subject).collect())
    };
    rates.iter().map(contest).collect()
}

fn servers() -> impl Iterator<Item = (String, Serve)> {
    threads(protocols().chain(rivals()))
}

fn round(serve: &Serve, traffic: &Traffic) -> Result<Latencies, Wrong> {
    let server = EchoServer::start(serve)?;
    let answers = traffic.send(server.address);
    let served = server.finish()?;
    let answers = answers?;
    Wrong::unless_equal("bytes echoed", served.bytes, answers.bytes)?;
    Ok(answers.latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_answers_what_is_due() {
        let pace = Pace::Open(Schedule::per_second(2_000.0));
        let duration = Duration::from_millis(50);
        let traffic = Traffic { connections: 8, bytes: 61, pace, duration, seed: 5 };
        for (name, serve) in servers() {
            let latencies =
                round(&serve, &traffic).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(latencies.count(), 100, "{name}");
        }
    }
}

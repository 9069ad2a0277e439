//! `loop-bench load`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use loop_bench::{Answers, Pace, Schedule, Traffic};

use super::Done;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  loop-bench load 192.0.2.1:7777 --rate 50000      fifty thousand requests a second, whatever happens
  loop-bench load 192.0.2.1:7777 --connections 1   as fast as one connection goes

Latency at a set rate is counted from when a request was due, not from when a free connection was found:
a server that stalls is not asked less. Without --rate it is counted from the sending.")]
pub(super) struct Args {
    /// An echo server: `loop-bench serve-echo`, or any other
    #[arg(value_name = "ADDR")]
    server: String,
    /// Requests a second over all connections; without it, each connection sends when it was answered
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// How many connections
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    connections: u32,
    /// Bytes a request
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    size: u32,
    /// For how many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = rate)]
    duration: f64,
    /// What decides the bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn rate(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "a number is wanted".to_owned())?;
    if number.is_finite() && number > 0.0 && number <= 1e9 {
        Ok(number)
    } else {
        Err("a number above zero is wanted, and no more than 1e9".into())
    }
}

pub(super) fn load(args: &Args) -> Done {
    let traffic = Traffic {
        connections: args.connections as usize,
        bytes: args.size as usize,
        pace: args.rate.map_or(Pace::Closed, |rate| Pace::Open(Schedule::per_second(rate))),
        duration: Duration::from_secs_f64(args.duration),
        seed: args.seed,
    };
    let server = resolve(&args.server)?;
    match traffic.send(server) {
        Ok(answers) => print(&answers, args),
        Err(wrong) => {
            println!("WRONG {server}: {wrong}");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn resolve(server: &str) -> Result<SocketAddr, String> {
    let mut addresses = server.to_socket_addrs().map_err(|error| format!("{server}: {error}"))?;
    addresses.next().ok_or_else(|| format!("{server}: no address"))
}

fn print(answers: &Answers, args: &Args) {
    let Answers { latencies, elapsed, .. } = answers;
    let count = latencies.count();
    println!(
        "{count} answers of {} bytes over {} connections in {:.2} s: {:.0} a second",
        args.size,
        args.connections,
        elapsed.as_secs_f64(),
        count as f64 / elapsed.as_secs_f64()
    );
    let from = if args.rate.is_some() { "when it was due" } else { "its sending" };
    println!("latency of a request, from {from}:");
    println!("  {:>8}  {:>12.1} µs", "mean", latencies.mean().as_secs_f64() * 1e6);
    for (percentile, nanos) in latencies.curve() {
        let name = if percentile == 100.0 { "longest".into() } else { format!("{percentile} %") };
        println!("  {name:>8}  {:>12.1} µs", nanos / 1e3);
    }
}

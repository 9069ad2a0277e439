//! `loop-bench serve-echo`.

use std::net::SocketAddr;
use std::process::ExitCode;

use loop_bench::serve_echo;

use super::Done;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  loop-bench serve-echo loop-net/epoll --listen 0.0.0.0:7777    on one machine
  loop-bench load 192.0.2.1:7777 --rate 50000                   on another")]
pub(super) struct Args {
    /// A subject of the workload `echo`, of those that are written in Rust
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// Serve by a task for each connection
    #[arg(long)]
    streams: bool,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until the program is ended.
pub(super) fn serve(args: &Args) -> Done {
    serve_echo(&args.subject, args.streams, args.listen, |address| {
        println!("{} listens on {address}", args.subject);
    })?;
    Ok(ExitCode::SUCCESS)
}

//! `loop-bench serve-echo`.

use std::net::SocketAddr;
use std::process::ExitCode;

use loop_bench::serve_echo;

use super::Done;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  loop-bench serve-echo loop-net/epoll --listen 0.0.0.0:7777    on one machine
  loop-bench load 192.0.2.1:7777 --rate 50000                   on another
  loop-bench serve-echo \"loop-net/epoll streams\"               a task for each connection
  loop-bench serve-echo libuv                                   a rival, compiled if it must be")]
pub(super) struct Args {
    /// A subject of the workload `echo`, as `loop-bench list` names it
    #[arg(value_name = "SUBJECT")]
    subject: String,
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Serves until the program is ended.
pub(super) fn serve(args: &Args) -> Done {
    serve_echo(&args.subject, args.listen, |address| {
        println!("{} listens on {address}", args.subject);
    })?;
    Ok(ExitCode::SUCCESS)
}

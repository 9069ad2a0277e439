//! The program from outside: what it prints, writes and exits with.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::{env, fs, process};

fn loop_bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loop-bench")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn list_names_every_workload() {
    let output = loop_bench(&["list"]);
    assert!(output.status.success());
    let names =
        "handles ready timers dispatch selectors wake echo pipelining accept idle redis http";
    for name in names.split(' ') {
        assert!(text(&output.stdout).lines().any(|line| line.starts_with(name)), "{name}");
    }
}

#[test]
fn a_reader_who_closes_the_pipe_has_seen_enough() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut list = Command::new(env!("CARGO_BIN_EXE_loop-bench"));
    let output = list.arg("list").stdout(writer).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn an_unknown_workload_is_refused_before_anything_runs() {
    let output = loop_bench(&["run", "ready/callback", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nonsense"));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_run_writes_the_machine_and_a_row_for_each_subject() {
    let file: PathBuf = env::temp_dir().join(format!("loop-bench-test-{}.json", process::id()));
    let output = loop_bench(&[
        "run",
        "ready/callback",
        "--quick",
        "--seed",
        "7",
        "--json",
        file.to_str().unwrap(),
    ]);
    let written = fs::read_to_string(&file).unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("\nseed 7, 3 rounds, cores "));
    let is_warned = text(&output.stdout).contains("\nCAUTION this is a debug build");
    assert_eq!(is_warned, cfg!(debug_assertions));

    let lines: Vec<&str> = written.lines().collect();
    let (bars, rows): (Vec<&str>, Vec<&str>) =
        lines[2..].iter().partition(|line| line.starts_with(r#"{"bar":"#));
    assert_eq!(rows.len(), 3, "{written}");
    assert!(lines[0].starts_with(r#"{"machine":{"cpu":"#), "{}", lines[0]);
    assert!(lines[1].starts_with(r#"{"run":{"version":"#), "{}", lines[1]);
    assert!(rows[0].starts_with(r#"{"workload":"ready/callback","subject":"loop-core/"#));
    assert!(rows[1].starts_with(r#"{"workload":"ready/callback","subject":"std","params":{"#));
    assert!(rows[2].starts_with(r#"{"workload":"ready/callback","subject":"calloop","params":{"#));
    let results = loop_bench::Results::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(results.rows.iter().all(|row| row.rounds.len() == 3), "{written}");
    assert!(results.rows.iter().all(|row| row.costs.user.is_some()), "{written}");
    assert_eq!((results.run.seed, results.run.quick), (7, true));
    // The bars of this workload are about epoll, and come last.
    assert!(bars.iter().all(|line| line.starts_with(r#"{"bar":"ready/callback","params":{"#)));
    assert_eq!(bars, lines[5..]);
    if cfg!(target_os = "linux") {
        assert_eq!(bars.len(), 2, "{written}");
        assert!(text(&output.stdout).lines().last().unwrap().contains("at most 0.80"));
    }
}

#[test]
fn passes_are_processes_whose_rounds_are_told_together() {
    let file: PathBuf = env::temp_dir().join(format!("loop-bench-passes-{}.json", process::id()));
    let json = file.to_str().unwrap();
    let run = ["run", "handles/once", "--quick", "--seed", "7", "--json", json];
    let output = loop_bench(&[&run[..], &["--rounds", "5", "--passes", "3"]].concat());
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    assert!(told.contains("\nseed 7, 5 rounds in 3 passes, cores "), "{told}");
    assert!(told.contains("pass 1 of 3 is done\npass 2 of 3 is done\n"), "{told}");
    let results = loop_bench::Results::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!((results.run.seed, results.run.rounds, results.run.passes), (7, 5, 3));
    assert!(results.rows.iter().any(|row| row.subject == "loop-handle"));
    for row in &results.rows {
        assert_eq!((row.rounds.len(), row.processor.len()), (5, 5), "{row:?}");
    }

    let output = loop_bench(&[&run[..], &["--passes", "4"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("4 passes cannot share 3 rounds"));
}

#[test]
fn a_server_that_changes_a_byte_makes_the_run_fail() {
    let run = ["run", "echo/small", "--quick", "--fault", "corrupt", "--backend", "poll"];
    let output = loop_bench(&[&run[..], &["--rounds", "2", "--passes", "2"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    // Each pass tells of it.
    assert_eq!(told.matches("WRONG echo/small corrupting: message ").count(), 2, "{told}");
    assert!(told.contains("loop-net/poll"), "{told}");
}

#[test]
fn names_that_are_not_known_are_told_the_known_ones() {
    for (args, known) in [
        (["run", "ready", "--subject", "nonsense"], "there are calloop, "),
        (["run", "wake", "--backend", "nonsense"], "poll"),
    ] {
        let output = loop_bench(&args);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("nonsense; there are ") && told.contains(known), "{told}");
    }
}

#[test]
fn a_report_and_a_comparison_are_made_from_what_a_run_wrote() {
    let folder = env::temp_dir().join(format!("loop-bench-report-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (json, page) = (path("a.json"), path("a.html"));
    let run = ["run", "ready/callback", "--quick", "--seed", "7", "--pin", "none", "--json", &json];
    assert!(loop_bench(&run).status.success());
    assert!(loop_bench(&["report", &json, "-o", &page]).status.success());
    assert!(fs::read_to_string(&page).unwrap().contains("ready/callback"));

    let same = loop_bench(&["compare", &json, &json]);
    assert!(same.status.success(), "{}", text(&same.stdout));
    assert!(
        text(&same.stdout).contains("3 rows of 3 subjects by time: no change beyond the noise")
    );

    let written = fs::read_to_string(&json).unwrap();
    fs::write(&json, &written[..written.len() - 5]).unwrap();
    for args in [["report", &json], ["compare", &json]] {
        let args = if args[0] == "report" { args.to_vec() } else { [&args[..], &[&json]].concat() };
        let output = loop_bench(&args);
        assert_eq!(output.status.code(), Some(2));
        let place = format!("{json}:{}: ", written.lines().count());
        assert!(text(&output.stderr).contains(&place), "{}", text(&output.stderr));
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// Serves a subject's echo; the address, unless it is missing here.
fn serve(subject: &str, listen: &str) -> Option<(Child, String)> {
    let mut server = Command::new(env!("CARGO_BIN_EXE_loop-bench"))
        .args(["serve-echo", subject, "--listen", listen])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    match line.trim().strip_prefix(&format!("{subject} listens on ")) {
        Some(address) => Some((server, address.to_owned())),
        None => {
            assert_eq!(server.wait().unwrap().code(), Some(2), "{subject} said {line:?}");
            None
        }
    }
}

#[test]
fn a_server_is_asked_from_another_process() {
    let (mut server, address) = serve("loop-net/poll", "127.0.0.1:0").unwrap();
    let load = |more: &[&str]| {
        let args = ["load", &address, "--connections", "4", "--duration", "0.2"];
        loop_bench(&[&args[..], more].concat())
    };
    let open = load(&["--rate", "500"]);
    let closed = load(&[]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(text(&open.stdout).starts_with("100 answers of 64 bytes over 4 connections"));
    assert!(text(&open.stdout).contains("from when it was due"));
    assert!(closed.status.success(), "{}", text(&closed.stdout));
    let unknown = loop_bench(&["serve-echo", "nonsense"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("nonsense; there are loop-net/"));
}

/// Each that is there, by callbacks, streams and sockets, in Rust, C and Python; on the other family of addresses too.
#[test]
fn every_kind_of_server_is_served_where_it_is_told() {
    for subject in [
        "loop-net/poll streams",
        "loop-net/poll sockets",
        "tokio",
        "mio",
        "epoll-c",
        "libuv",
        "libevent",
        "libev",
        "asyncio",
        "uvloop",
    ] {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            if listen.starts_with('[') && TcpListener::bind(listen).is_err() {
                continue;
            }
            let Some((mut server, address)) = serve(subject, listen) else { continue };
            let args =
                ["load", &address, "--connections", "2", "--duration", "0.05", "--rate", "200"];
            let output = loop_bench(&args);
            server.kill().unwrap();
            server.wait().unwrap();
            let told = text(&output.stdout);
            assert!(told.starts_with("10 answers of 64 bytes over 2 "), "{subject}: {told}");
            assert!(address.starts_with(listen.trim_end_matches('0')), "{subject}: {address}");
        }
    }
}

/// valgrind shows a program no page of the kernel's functions: what looks for that by itself ends there.
#[test]
fn what_a_server_does_can_be_counted() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let ping_pong = ["wake/ping_pong_cpu", "--subject", "loop-core/epoll", "--rounds", "1"];
    let output = loop_bench(&[&["run", "--quick", "--counts"], &ping_pong[..]].concat());
    let told = text(&output.stdout);
    assert!(told.contains(" instructions, "), "{told}");
}

#[test]
fn help_has_examples() {
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["report", "--help"],
        &["compare", "--help"],
        &["serve-echo", "--help"],
        &["load", "--help"],
    ] {
        let output = loop_bench(args);
        assert!(text(&output.stdout).contains("Examples:"), "{args:?}");
    }
}

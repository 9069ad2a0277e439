//! The program from outside: what it prints, writes and exits with.

use std::path::PathBuf;
use std::process::{Command, Output};
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
    for name in ["handles", "ready", "timers", "selectors", "wake", "echo"] {
        assert!(text(&output.stdout).lines().any(|line| line.starts_with(name)), "{name}");
    }
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
fn a_server_that_changes_a_byte_makes_the_run_fail() {
    let output =
        loop_bench(&["run", "echo/small", "--quick", "--fault", "corrupt", "--backend", "poll"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("WRONG echo/small corrupting: message "), "{told}");
    assert!(told.contains("loop-net/poll"), "{told}");
}

#[test]
fn names_that_are_not_known_are_told_the_known_ones() {
    for (args, known) in [
        (["run", "ready", "--subject", "nonsense"], "calloop, loop-core/"),
        (["run", "wake", "--backend", "nonsense"], "poll"),
    ] {
        let output = loop_bench(&args);
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("nonsense; there are ") && told.contains(known), "{told}");
    }
}

#[test]
fn help_has_examples() {
    for args in [&["--help"][..], &["run", "--help"]] {
        let output = loop_bench(args);
        assert!(text(&output.stdout).contains("Examples:"), "{args:?}");
    }
}

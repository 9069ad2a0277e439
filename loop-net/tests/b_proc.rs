//! Child processes: the behaviours B-PROC of the contract, and public cases.

mod common;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::rc::Rc;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use common::{Trace, World, for_each_backend, pipe, reports, watchdog};
use loop_core::{EventLoop, Signal, sleep, timeout};
use loop_net::{ChildPipe, Net, NetError, Process, ProcessProtocol, ProcessTransport, Stdio};

const LONG: &str = "exec sleep 600";

/// Tests that count the descriptors of the process have it to themselves.
static COUNTING: RwLock<()> = RwLock::new(());

fn each_backend(test: impl Fn(&mut World)) {
    let _shared = COUNTING.read().unwrap_or_else(PoisonError::into_inner);
    for_each_backend(test);
}

fn each_backend_alone(test: impl Fn(&mut World)) {
    let _alone = COUNTING.write().unwrap_or_else(PoisonError::into_inner);
    for_each_backend(test);
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The state letter of a process: `Z` is a zombie. `None` once it is reaped.
fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits outside any loop until something holds.
fn eventually(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(30), "it never holds");
        std::thread::sleep(Duration::from_millis(1));
    }
}

async fn line_of(process: &mut Process) -> String {
    let line = process.stdout.as_mut().unwrap().read_line().await.unwrap().unwrap();
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// A child that lives until it is killed, and has said so.
async fn lively(net: &Net, script: &str) -> Process {
    let script = format!("echo up; {script}");
    let mut child = net.shell(&script).stdout(Stdio::Piped).spawn().await.unwrap();
    assert_eq!(line_of(&mut child).await, "up");
    child
}

/// Notes its hooks, and acts at some.
struct Hooks {
    trace: Trace,
    transport: Rc<RefCell<Option<ProcessTransport>>>,
    act: fn(&str, &ProcessTransport),
}

impl Hooks {
    fn note(&self, what: String) {
        let transport = self.transport.borrow().clone().expect("connection_made comes first");
        (self.act)(&what, &transport);
        self.trace.push(what);
    }
}

impl ProcessProtocol for Hooks {
    fn connection_made(&mut self, transport: &ProcessTransport) {
        *self.transport.borrow_mut() = Some(transport.clone());
        self.note("made".to_owned());
    }
    fn pipe_data_received(&mut self, pipe: ChildPipe, data: &[u8]) {
        self.note(match data.len() {
            0..20 => format!("{pipe:?} {}", String::from_utf8_lossy(data).trim_end()),
            length => format!("{pipe:?} of {length}"),
        });
    }
    fn pipe_connection_lost(&mut self, pipe: ChildPipe, error: Option<&NetError>) {
        self.note(match error {
            None => format!("{pipe:?} lost"),
            Some(NetError::Io(error)) => format!("{pipe:?} lost {:?}", error.kind()),
            Some(error) => format!("{pipe:?} lost {error}"),
        });
    }
    fn process_exited(&mut self) {
        self.note("exited".to_owned());
    }
    fn pause_writing(&mut self) {
        self.note("pause".to_owned());
    }
    fn resume_writing(&mut self) {
        self.note("resume".to_owned());
    }
    fn connection_lost(&mut self) {
        self.note("lost".to_owned());
    }
}

fn hooked(
    world: &mut World,
    script: &str,
    act: fn(&str, &ProcessTransport),
) -> (Trace, ProcessTransport) {
    let trace = Trace::new();
    let hooks = Hooks { trace: trace.clone(), transport: Rc::default(), act };
    let starting = world.net.shell(script).piped().connect(|| hooks);
    let transport = world.block_on(starting).unwrap();
    (trace, transport)
}

#[test]
fn b_proc_01_exec_passes_arguments_as_they_are_and_shell_runs_a_line() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let mut command = Command::new("printf");
            command.args(["%s|", "a b", "$HOME", "'\"", "*"]);
            let mut child = net.exec(command).stdout(Stdio::Piped).spawn().await.unwrap();
            let output = child.communicate(None).await.unwrap();
            assert_eq!(output.stdout, b"a b|$HOME|'\"|*|");
            let mut child =
                net.shell("echo $((6 * 7))").stdout(Stdio::Piped).spawn().await.unwrap();
            assert_eq!(child.communicate(None).await.unwrap().stdout, b"42\n");
        });
    });
}

#[test]
fn b_proc_02_a_failed_start_names_the_program_and_closes_its_pipes() {
    each_backend_alone(|world| {
        let before = open_fds();
        for merged in [false, true] {
            let mut builder = world.net.exec(Command::new("/no/such/program")).piped();
            if merged {
                builder = builder.stderr(Stdio::MergeIntoStdout);
            }
            let error = world.block_on(builder.spawn()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(error.to_string().contains("/no/such/program"), "{error}");
            assert_eq!(open_fds(), before);
        }
        let merged = world.net.shell(":").stdin(Stdio::MergeIntoStdout);
        let error = world.block_on(merged.spawn()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn b_proc_03_connection_made_comes_before_everything() {
    each_backend(|world| {
        let (trace, _) = hooked(world, "echo out; exit 3", |_, _| {});
        // The child may be long dead before the loop runs again.
        world.until(|| trace.has("lost"));
        assert_eq!(trace.all()[0], "made");
        assert!(trace.has("Stdout out"));
    });
}

#[test]
fn b_proc_04_each_end_is_told_once_and_connection_lost_is_last() {
    each_backend(|world| {
        let (trace, transport) = hooked(world, "cat; echo oops >&2; exit 3", |what, transport| {
            if what == "Stdout hello" {
                transport.pipe(ChildPipe::Stdin).unwrap().write_eof();
            }
        });
        transport.pipe(ChildPipe::Stdin).unwrap().write(b"hello\n");
        world.until(|| trace.has("lost"));
        world.idle();
        let mut all = trace.take();
        assert_eq!(all.first().unwrap(), "made");
        assert_eq!(all.last().unwrap(), "lost");
        all.sort();
        let expected = [
            "Stderr lost",
            "Stderr oops",
            "Stdin lost",
            "Stdout hello",
            "Stdout lost",
            "exited",
            "lost",
            "made",
        ];
        assert_eq!(all, expected);
        assert_eq!(transport.exit_status().unwrap().code(), Some(3));
        assert!(transport.is_over());
    });
}

#[test]
fn b_proc_05_output_is_delivered_though_the_exit_is_seen_first() {
    each_backend(|world| {
        let (trace, transport) = hooked(world, "head -c 60000 /dev/zero", |what, transport| {
            let stdout = transport.pipe(ChildPipe::Stdout).unwrap();
            match what {
                "made" => stdout.pause_reading(),
                "exited" => stdout.resume_reading(),
                _ => {}
            }
        });
        world.until(|| trace.has("lost"));
        let all = trace.all();
        let exited = all.iter().position(|what| what == "exited").unwrap();
        let data = all.iter().position(|what| what.starts_with("Stdout of")).unwrap();
        assert!(exited < data, "{all:?}");
        let bytes: usize = all
            .iter()
            .filter_map(|what| what.strip_prefix("Stdout of "))
            .map(|length| length.parse::<usize>().unwrap())
            .sum();
        assert_eq!(bytes, 60_000);
        drop(transport);
    });
}

#[test]
fn b_proc_06_the_status_is_a_code_or_a_signal() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let child = net.shell("exit 7").spawn().await.unwrap();
            assert_eq!(child.wait().await.unwrap().code(), Some(7));
            let child = net.shell("kill -USR1 $$; sleep 600").spawn().await.unwrap();
            let status = child.wait().await.unwrap();
            assert_eq!((status.code(), status.signal()), (None, Some(Signal::USR1.as_raw())));
            assert!(!status.core_dumped());
        });
    });
}

#[test]
fn b_proc_07_wait_works_often_at_once_and_late() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let mut child = net.shell("read x; exit 5").stdin(Stdio::Piped).spawn().await.unwrap();
            let stdin = child.stdin.take();
            let child = Rc::new(child);
            let waits: Vec<_> = (0..5)
                .map(|_| {
                    let child = child.clone();
                    loop_core::spawn(async move { child.wait().await.unwrap().code() })
                })
                .collect();
            loop_core::yield_now().await;
            drop(stdin);
            for wait in waits {
                assert_eq!(wait.await.unwrap(), Some(5));
            }
            assert_eq!(child.wait().await.unwrap().code(), Some(5));
            assert_eq!(child.exit_status().unwrap().code(), Some(5));
        });
    });
}

/// python/cpython#119710.
#[test]
fn s35_wait_ends_with_the_child_though_a_grandchild_holds_its_output() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            // The grandchild says who it is, and holds standard output until it is killed.
            let script = "sleep 600 & echo $!; exit 7";
            let mut child = net.shell(script).stdout(Stdio::Piped).spawn().await.unwrap();
            let grandchild: i32 = line_of(&mut child).await.parse().unwrap();
            let status = timeout(Duration::from_secs(20), child.wait()).await.unwrap().unwrap();
            assert_eq!(status.code(), Some(7));
            let pid = rustix::process::Pid::from_raw(grandchild).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            let rest = child.stdout.as_mut().unwrap().read_to_end().await.unwrap();
            assert_eq!(rest, b"");
        });
    });
}

#[test]
fn b_proc_08_the_exit_is_told_while_a_grandchild_holds_the_pipes() {
    each_backend(|world| {
        let (trace, transport) = hooked(world, "sleep 600 & echo $!; exit 7", |_, _| {});
        world.until(|| trace.has("exited"));
        world.until(|| trace.count("Stdout ") == 1);
        assert!(!trace.has("Stdout lost") && !trace.has("lost"));
        let line =
            trace.all().into_iter().find_map(|what| Some(what.strip_prefix("Stdout ")?.to_owned()));
        let pid = rustix::process::Pid::from_raw(line.unwrap().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        world.until(|| trace.has("lost"));
        assert_eq!(transport.exit_status().unwrap().code(), Some(7));
    });
}

#[test]
fn b_proc_09_a_dropped_wait_leaves_the_child_alone() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let mut child = net.shell("read x; exit 4").stdin(Stdio::Piped).spawn().await.unwrap();
            assert!(timeout(Duration::from_millis(5), child.wait()).await.is_err());
            assert_eq!(child.exit_status(), None);
            drop(child.stdin.take());
            assert_eq!(child.wait().await.unwrap().code(), Some(4));
        });
    });
}

#[test]
fn b_proc_10_a_dropped_start_kills_and_reaps_the_child() {
    each_backend_alone(|world| {
        let before = open_fds();
        let dir = common::temp_dir();
        let file = dir.path().join("pid");
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; {LONG}", file.display());
        for hooks in [false, true] {
            let net = world.net.clone();
            let script = script.clone();
            let task = world.event_loop.spawn(async move {
                let builder = net.shell(&script).piped();
                if hooks {
                    let trace = Trace::new();
                    let act: fn(&str, &ProcessTransport) = |_, _| {};
                    let hooks = Hooks { trace, transport: Rc::default(), act };
                    builder.connect(|| hooks).await.map(drop)
                } else {
                    builder.spawn().await.map(drop)
                }
            });
            // One step: the child runs, and its pipes are not connected yet.
            world.turn();
            let mut pid = String::new();
            eventually(|| {
                pid = std::fs::read_to_string(&file).unwrap_or_default();
                !pid.is_empty()
            });
            std::fs::remove_file(&file).unwrap();
            let pid: u32 = pid.trim().parse().unwrap();
            assert!(state_of(pid).is_some());
            task.cancel();
            world.until(|| state_of(pid).is_none());
            world.idle();
            assert_eq!(open_fds(), before);
        }
        drop(dir);
    });
}

#[test]
fn b_proc_11_signals_reach_a_living_child_only() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            // Not HUP: a shell takes no notice of what was ignored when it began, as under nohup.
            let mut child = lively(
                &net,
                "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.01; done",
            )
            .await;
            assert_eq!(line_of(&mut child).await, "ready");
            child.send_signal(Signal::USR1).unwrap();
            assert_eq!(line_of(&mut child).await, "got");
            assert_eq!(child.wait().await.unwrap().code(), Some(9));
            for result in [child.send_signal(Signal::USR1), child.terminate(), child.kill()] {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotFound);
                assert!(error.to_string().contains(&child.pid().to_string()), "{error}");
            }
            // Between its end and our knowledge of it: nothing.
            let child = net.shell("exit 0").spawn().await.unwrap();
            eventually(|| state_of(child.pid()) == Some('Z'));
            child.kill().unwrap();
            assert_eq!(child.wait().await.unwrap().code(), Some(0));

            let child = lively(&net, LONG).await;
            child.terminate().unwrap();
            assert_eq!(child.wait().await.unwrap().signal(), Some(15));
            let mut child =
                lively(&net, "trap '' TERM; echo deaf; while :; do sleep 0.01; done").await;
            assert_eq!(line_of(&mut child).await, "deaf");
            child.terminate().unwrap();
            child.kill().unwrap();
            assert_eq!(child.wait().await.unwrap().signal(), Some(9));
        });
    });
}

/// Starts a process with a number, if this system lets us choose: not without the right to.
fn spawn_numbered(pid: u32) -> Option<std::process::Child> {
    // Other tests start processes too.
    for _ in 0..50 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let mut child = Command::new("/bin/sleep").arg("600").spawn().unwrap();
        if child.id() == pid {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

#[test]
fn b_proc_12_a_signal_never_reaches_another_process_with_the_same_number() {
    each_backend(|world| {
        let net = world.net.clone();
        let child = world.block_on(net.shell("exit 0").spawn()).unwrap();
        let pid = child.pid();
        // As long as the loop has not reaped it, nobody else can have its number.
        eventually(|| state_of(pid) == Some('Z'));
        child.kill().unwrap();
        assert_eq!(state_of(pid), Some('Z'));
        // Somebody else reaps it, and the loop does not know yet.
        let id = rustix::process::Pid::from_raw(pid as i32);
        rustix::process::waitpid(id, rustix::process::WaitOptions::empty()).unwrap();
        let bystander = cfg!(target_os = "linux").then(|| spawn_numbered(pid)).flatten();
        child.kill().unwrap();
        child.terminate().unwrap();
        world.block_on(child.wait()).unwrap_err();
        // And now it does.
        assert_eq!(child.kill().unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(world.reports.take().len(), 1);
        if let Some(mut bystander) = bystander {
            assert_eq!(bystander.try_wait().unwrap(), None, "the bystander was hit");
            bystander.kill().unwrap();
            bystander.wait().unwrap();
        }
    });
}

#[test]
fn b_proc_13_close_kills_a_running_child_and_leaves_a_finished_one() {
    each_backend(|world| {
        // It is blocked on its output.
        let (trace, transport) = hooked(world, "exec cat /dev/zero", |_, transport| {
            transport.pipe(ChildPipe::Stdout).unwrap().pause_reading();
        });
        transport.close();
        transport.close();
        world.until(|| trace.has("lost"));
        assert_eq!(transport.exit_status().unwrap().signal(), Some(9));
        transport.close();

        let (trace, transport) = hooked(world, "exit 3", |what, transport| {
            if what == "exited" {
                transport.close();
            }
        });
        world.until(|| trace.has("lost"));
        assert_eq!(transport.exit_status().unwrap().code(), Some(3));
        assert_eq!(trace.count("exited"), 1);
    });
}

#[test]
fn b_proc_13_killing_a_child_that_is_blocked_on_its_output_works() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let mut child = net.shell("exec cat /dev/zero").piped().spawn().await.unwrap();
            sleep(Duration::from_millis(5)).await;
            child.kill().unwrap();
            assert_eq!(child.wait().await.unwrap().signal(), Some(9));
            child.communicate(None).await.unwrap();
        });
    });
}

#[test]
fn b_proc_14_communicate_feeds_reads_both_and_waits() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            // Far more than the pipes hold, in all three at once.
            let input: Vec<u8> = (0..2_000_000u32).map(|i| i as u8).collect();
            let mut child = net.shell("tee /dev/stderr").piped().spawn().await.unwrap();
            let output = child.communicate(Some(&input)).await.unwrap();
            assert!(output.status.success());
            assert!(output.stdout == input && output.stderr == input);

            for input in [None, Some(&b""[..])] {
                let mut child = net.shell("cat; exit 2").piped().spawn().await.unwrap();
                let output = child.communicate(input).await.unwrap();
                assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
            }
            // A child that does not read.
            let mut child = net.shell("exec <&-; echo done").piped().spawn().await.unwrap();
            let output = child.communicate(Some(&input)).await.unwrap();
            assert_eq!(output.stdout, b"done\n");

            let mut child = net.shell("exit 0").spawn().await.unwrap();
            let error = child.communicate(Some(b"x")).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            child.wait().await.unwrap();
        });
    });
}

#[test]
fn b_proc_14_draining_into_a_dead_child_fails() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let child = net.shell("exit 0").piped().spawn().await.unwrap();
            child.wait().await.unwrap();
            let stdin = child.stdin.as_ref().unwrap();
            let error = loop {
                stdin.write(&[0; 65536]);
                if let Err(error) = stdin.drain().await {
                    break error;
                }
            };
            let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::NotConnected];
            assert!(kinds.contains(&error.kind()), "{error}");
        });
    });
}

#[test]
fn b_proc_15_other_children_do_not_inherit_the_pipes() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let merged = || net.shell("cat").piped().stderr(Stdio::MergeIntoStdout);
            let mut first = merged().spawn().await.unwrap();
            let mut second = merged().spawn().await.unwrap();
            // It ends only if the second child does not hold the first one's input.
            drop(first.stdin.take());
            assert!(first.wait().await.unwrap().success());
            assert_eq!(first.stdout.as_mut().unwrap().read_to_end().await.unwrap(), b"");
            assert!(second.exit_status().is_none());
            second.communicate(None).await.unwrap();
        });
    });
}

#[test]
fn b_proc_16_null_given_and_merged_streams() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let script = "cat; echo out; echo err >&2; echo out";
            let quiet =
                net.shell(script).stdin(Stdio::Null).stdout(Stdio::Null).stderr(Stdio::Null);
            let mut child = quiet.spawn().await.unwrap();
            assert!(child.stdin.is_none() && child.stdout.is_none() && child.stderr.is_none());
            let output = child.communicate(None).await.unwrap();
            assert!(output.status.success() && output.stdout.is_empty());

            let merged = net.shell(script).stdin(Stdio::Null).stdout(Stdio::Piped);
            let mut child = merged.stderr(Stdio::MergeIntoStdout).spawn().await.unwrap();
            let output = child.communicate(None).await.unwrap();
            assert_eq!(output.stdout, b"out\nerr\nout\n");

            let (reader, writer) = pipe();
            let given = net.shell(script).stdin(Stdio::Null).stdout(OwnedFd::from(writer));
            let mut child = given.stderr(Stdio::MergeIntoStdout).spawn().await.unwrap();
            assert!(child.stdout.is_none());
            assert!(child.communicate(None).await.unwrap().status.success());
            // The builder kept no end of it: it is over.
            let text = io::read_to_string(reader).unwrap();
            assert_eq!(text, "out\nerr\nout\n");
        });
    });
}

#[test]
fn b_proc_17_a_slow_reader_holds_up_the_child() {
    each_backend(|world| {
        let net = world.net.clone();
        world.block_on(async {
            let mut child = net.shell("head -c 3000000 /dev/zero").piped().spawn().await.unwrap();
            while child.stdout.as_ref().unwrap().transport().is_reading() {
                sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(child.exit_status(), None);
            let output = child.communicate(None).await.unwrap();
            assert_eq!(output.stdout.len(), 3_000_000);
        });
    });
}

#[test]
fn b_proc_17_a_child_that_does_not_read_pauses_writing() {
    each_backend(|world| {
        let (trace, transport) =
            hooked(world, "read x; exec cat > /dev/null", |what, transport| {
                let stdin = transport.pipe(ChildPipe::Stdin).unwrap();
                match what {
                    "made" => drop(stdin.write(&[0; 1 << 20])),
                    "pause" => drop(stdin.write(b"\n")),
                    "resume" => stdin.close(),
                    _ => {}
                }
            });
        world.until(|| trace.has("lost"));
        let all = trace.all();
        assert_eq!(all[..3], ["made", "pause", "resume"], "{all:?}");
        assert!(transport.exit_status().unwrap().success());
    });
}

#[test]
fn b_proc_18_children_that_end_at_once_are_all_noticed_and_nothing_is_left() {
    each_backend_alone(|world| {
        let net = world.net.clone();
        let before = open_fds();
        world.block_on(async {
            for round in 0..40 {
                let child = net.shell("exit 1").spawn().await.unwrap();
                let pid = child.pid();
                if round % 2 == 0 {
                    eventually(|| state_of(pid) == Some('Z'));
                }
                assert_eq!(child.wait().await.unwrap().code(), Some(1));
                assert_eq!(state_of(pid), None, "reaped");
            }
        });
        assert_eq!(open_fds(), before);
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_proc_19_a_child_reaped_by_somebody_else_is_no_hang() {
    each_backend(|world| {
        let net = world.net.clone();
        let pid = world.block_on(async {
            let child = net.shell("exit 1").spawn().await.unwrap();
            let pid = rustix::process::Pid::from_raw(child.pid() as i32).unwrap();
            let options = rustix::process::WaitOptions::empty();
            rustix::process::waitpid(Some(pid), options).unwrap();
            let error = child.wait().await.unwrap_err();
            assert!(error.to_string().contains("somebody else"), "{error}");
            assert_eq!(child.exit_status(), None);
            child.kill().unwrap_err();
            pid
        });
        let reports = world.reports.take();
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains(&format!("process {pid}")), "{reports:?}");
    });
}

#[test]
fn b_proc_20_several_loops_in_several_threads() {
    let _watchdog = watchdog();
    let _shared = COUNTING.read().unwrap_or_else(PoisonError::into_inner);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut event_loop = EventLoop::new().unwrap();
                let net = Net::os(&event_loop);
                event_loop
                    .run_until_complete(async {
                        for round in 0..10 {
                            let code = thread * 10 + round;
                            let child = net.shell(&format!("exit {code}")).spawn().await.unwrap();
                            assert_eq!(child.wait().await.unwrap().code(), Some(code));
                        }
                    })
                    .unwrap();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn b_proc_21_a_child_that_outlives_its_loop_is_reaped() {
    let _watchdog = watchdog();
    let _shared = COUNTING.read().unwrap_or_else(PoisonError::into_inner);
    let mut event_loop = EventLoop::new().unwrap();
    let reports = reports(&event_loop);
    let net = Net::os(&event_loop);
    let mut child = event_loop.run_until_complete(lively(&net, LONG)).unwrap();
    let pid = child.pid();
    let stdout = child.stdout.take();
    drop(event_loop);
    assert_eq!(reports.count("a child process ran when its loop closed"), 1);
    assert_eq!(child.exit_status(), None);
    child.kill().unwrap_err();
    let pid_ = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid_, rustix::process::Signal::KILL).unwrap();
    eventually(|| state_of(pid).is_none());
    drop(stdout);
}

#[test]
fn a_dropped_process_runs_on_and_is_reaped_or_is_killed() {
    each_backend(|world| {
        let net = world.net.clone();
        let running = world.block_on(lively(&net, LONG)).pid();
        // Nobody holds it any more.
        assert!(state_of(running).is_some_and(|state| state != 'Z'));
        let pid = rustix::process::Pid::from_raw(running as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        world.until(|| state_of(running).is_none());

        let builder = net.shell(LONG).kill_on_drop(true);
        let killed = world.block_on(builder.spawn()).unwrap().pid();
        world.until(|| state_of(killed).is_none());
        assert_eq!(world.log.registered(), 0);
    });
}

/// The signals that are blocked and ignored, as `/proc/PID/status` says.
fn signal_masks(status: &str) -> (u64, u64) {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    (field("SigBlk:"), field("SigIgn:"))
}

/// Those of a child.
async fn masks_of_a_child(net: &Net) -> (u64, u64) {
    let mut command = Command::new("grep");
    command.args(["-E", "SigIgn|SigBlk", "/proc/self/status"]);
    let mut child = net.exec(command).stdout(Stdio::Piped).spawn().await.unwrap();
    let output = String::from_utf8(child.communicate(None).await.unwrap().stdout).unwrap();
    signal_masks(&output)
}

/// Those of the calling thread.
fn own_masks() -> (u64, u64) {
    signal_masks(&std::fs::read_to_string("/proc/thread-self/status").unwrap())
}

/// Not a test of its own: what the next one runs in a process in which every thread blocks all signals.
#[test]
fn child_blocks_all_signals() {
    if std::env::var_os("LOOP_NET_CHILD").is_none() {
        return;
    }
    assert_eq!(own_masks().0 & 0x1_4200, 0x1_4200, "SIGUSR1, SIGTERM and SIGCHLD are blocked");
    children_have_clean_signals();
    println!("checked.");
}

/// rust-lang/rust#25784 and rust-lang/rust#101077.
#[test]
fn s36_children_start_with_clean_signals() {
    let _watchdog = watchdog();
    let _shared = COUNTING.read().unwrap_or_else(PoisonError::into_inner);
    children_have_clean_signals();
    // The mask is inherited, so it is set before the process begins, for the test may not be unsafe.
    let blocked = ["--block-signal", "--ignore-signal=USR2"];
    if !Command::new("env").args(blocked).arg("true").status().is_ok_and(|it| it.success()) {
        return eprintln!("left out with signals blocked: `env` cannot do that here");
    }
    let output = Command::new("env")
        .args(blocked)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_blocks_all_signals", "--nocapture"])
        .env("LOOP_NET_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("checked."), "{text}{errors}");
}

fn children_have_clean_signals() {
    // Some others are the C library's own, which does with them as it likes.
    const NAMED: u64 = 0x7fff_ffff;
    let here = || {
        let mut event_loop = EventLoop::new().unwrap();
        let net = Net::os(&event_loop);
        for signal in [Signal::CHLD, Signal::TERM] {
            event_loop.add_signal_handler(signal, || {}).unwrap();
        }
        event_loop.run_until_complete(masks_of_a_child(&net)).unwrap()
    };
    // SIGPIPE, which Rust programs ignore, and SIGCHLD; others are as this process was started with.
    let (_, ours) = own_masks();
    for (blocked, ignored) in [here(), std::thread::spawn(here).join().unwrap()] {
        assert_eq!(blocked, 0);
        assert_eq!(ignored & NAMED, ours & NAMED & !0x1_1000);
    }
}

#[test]
fn no_descriptor_of_ours_reaches_a_child() {
    each_backend(|world| {
        let net = world.net.clone();
        let (reader, _writer) = pipe();
        // A number that neither the shell nor `ls` takes for something of its own.
        let reader = rustix::io::fcntl_dupfd_cloexec(&reader, 100).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&reader);
        world.block_on(async {
            let mut child = net.shell("ls /proc/self/fd").piped().spawn().await.unwrap();
            let output = child.communicate(None).await.unwrap();
            let listed = String::from_utf8(output.stdout).unwrap();
            assert!(!listed.lines().any(|line| line == fd.to_string()), "{listed}");
        });
    });
}

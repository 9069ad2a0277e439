//! No server keeps descriptors for those that come after it: `select` takes none from 1,024 on.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};
use std::{fs, thread};

use loop_bench::{Contest, Plan, Rng, Subject, Workload};

fn contests(plan: &Plan) -> Vec<Contest> {
    Workload::ALL.iter().flat_map(|family| family.contests(plan, "accept/storm")).collect()
}

/// What is open after one round of one server.
fn opened_by(server: &str) -> usize {
    let plan = Plan::quick(3).with_rounds(1);
    for mut contest in contests(&plan) {
        contest.retain(|name| name == server);
        let outcome = contest.run(&plan, &mut Rng::new(plan.seed));
        assert!(outcome.wrong.is_empty(), "{:?}", outcome.wrong);
    }
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The only test of its process, in which nobody else opens any.
#[test]
fn no_server_leaves_descriptors_behind() {
    // What these keep ends with them.
    let processes = ["epoll-c", "libuv", "libevent", "libev", "asyncio", "uvloop", "glommio"];
    let contests = contests(&Plan::quick(3));
    let mut names: Vec<&str> =
        contests.iter().flat_map(|contest| contest.subjects()).map(Subject::name).collect();
    names.retain(|name| !processes.contains(name));
    for name in names {
        // A rival may open some once and for all.
        let first = opened_by(name);
        let begin = Instant::now();
        // A ring's are closed by the kernel, a little later.
        while opened_by(name) > first {
            assert!(begin.elapsed() < Duration::from_secs(20), "{name} has more open each time");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

//! This program run again under a tool that counts: callgrind, strace.

use std::env;
use std::process::{Command, Stdio};

/// What a run cost a process without the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Instructions carried out.
    pub(crate) instructions: u64,
    /// Calls of `malloc` and its relatives.
    pub(crate) allocations: u64,
}

/// Runs this program with `arguments` under callgrind.
///
/// # Errors
/// Why that cannot be done, in words.
pub(crate) fn callgrind(arguments: &[String]) -> Result<Cost, String> {
    let command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/stderr", "-q"];
    let profile = run(&command, arguments)?;
    cost(&profile).ok_or_else(|| "callgrind's profile has no total".into())
}

/// How many system calls this program makes with `arguments`.
///
/// # Errors
/// Why that cannot be counted, in words.
pub(crate) fn system_calls(arguments: &[String]) -> Result<u64, String> {
    let table = run(&["strace", "-f", "-c"], arguments)?;
    total_calls(&table).ok_or_else(|| "strace's table has no total".into())
}

/// What this program prints with `arguments`.
///
/// # Errors
/// Why it did not, in words.
pub(crate) fn output(arguments: &[String]) -> Result<String, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(text.lines().last().unwrap_or_default().to_owned())
}

/// What the tool wrote to its standard error.
fn run(tool: &[&str], arguments: &[String]) -> Result<String, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(tool[0])
        .args(&tool[1..])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", tool[0]))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let last = text.lines().last().unwrap_or_default();
    Err(format!("{}: {}: {last}", tool[0], output.status))
}

/// Reads the two totals from a profile in callgrind's format.
fn cost(profile: &str) -> Option<Cost> {
    let total = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
    let instructions = profile.lines().find_map(total)?;
    let (mut allocating, mut allocations) = (Vec::new(), 0);
    let mut callee_allocates = false;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("cfn=").or(line.strip_prefix("fn=")) {
            // A name is written out once, "(12) malloc", and is "(12)" from then on.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if ["malloc", "calloc", "realloc", "posix_memalign"].contains(&name) {
                allocating.push(number);
            }
            callee_allocates = line.starts_with('c') && allocating.contains(&number);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| callee_allocates) {
            allocations += calls.split(' ').next()?.parse::<u64>().ok()?;
        }
    }
    Some(Cost { instructions, allocations })
}

/// The number of calls in the last line of `strace -c`: "100.00 0.01 5 29 1 total", where the
/// number of errors may be missing.
fn total_calls(table: &str) -> Option<u64> {
    let total = table.lines().rfind(|line| line.ends_with(" total"))?;
    total.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_summed_up() {
        let profile = "events: Ir\nfn=(1) main\n5 10\ncfn=(2) malloc\ncalls=3 0\n5 60\n\
            cfn=(3) free\ncalls=4 0\n5 8\n\nfn=(4) other\ncfn=(2)\ncalls=2 0\n1 1\n\
            cfn=(3)\ncalls=9 0\n1 1\nfn=(2)\n7 7\ncfn=(5) calloc\ncalls=1 0\n1 1\n\ntotals: 1234\n";
        assert_eq!(cost(profile), Some(Cost { instructions: 1234, allocations: 6 }));
        assert_eq!(cost("fn=(1) main\n"), None);
    }

    #[test]
    fn a_table_of_calls_is_read_with_and_without_errors() {
        let table = |errors| {
            format!(
                "% time     seconds  usecs/call     calls    errors syscall\n\
                 ------ ----------- ----------- --------- --------- ------\n\
                 100.00    0.000005           0        27         {errors} total\n"
            )
        };
        assert_eq!(total_calls(&table("1")), Some(27));
        assert_eq!(total_calls(&table(" ")), Some(27));
        assert_eq!(total_calls("nothing"), None);
    }
}

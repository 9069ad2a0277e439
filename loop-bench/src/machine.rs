//! [`Machine`]: where the numbers come from.

use std::process::Command;
use std::{env, fmt, fs, thread};

/// The machine that a run was done on. A fact that cannot be learned reads `unknown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many threads may run at once: what the scheduler allows this process.
    pub cores: usize,
    /// Name and release of the kernel.
    pub kernel: String,
    /// The compiler on the path, which is the one that built this program unless it was moved.
    pub rustc: String,
    /// `release` or `debug`: numbers of a debug build mean nothing.
    pub profile: &'static str,
}

impl Machine {
    /// Looks round. Reads files and starts `rustc` once: a few milliseconds.
    pub fn look() -> Self {
        Self {
            cpu: cpu().unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel().unwrap_or_else(unknown),
            rustc: line_of(&env::var("RUSTC").unwrap_or("rustc".into()), &["--version"])
                .unwrap_or_else(unknown),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, kernel, rustc, profile } = self;
        write!(f, "{cpu}, {cores} cores, {kernel}, {rustc}, {profile} build")
    }
}

fn unknown() -> String {
    "unknown".into()
}

fn cpu() -> Option<String> {
    let Ok(text) = fs::read_to_string("/proc/cpuinfo") else {
        // Where there is no /proc: the name by which macOS and the BSDs know the processor.
        return line_of("sysctl", &["-n", "machdep.cpu.brand_string"])
            .or_else(|| line_of("sysctl", &["-n", "hw.model"]));
    };
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn kernel() -> Option<String> {
    line_of("uname", &["-s", "-r"])
}

fn line_of(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_finds_a_core_and_a_kernel() {
        let machine = Machine::look();
        assert!(machine.cores >= 1);
        assert!(!machine.cpu.is_empty());
        assert_ne!(machine.kernel, "unknown");
    }

    #[test]
    fn a_program_that_is_not_there_has_no_line() {
        assert_eq!(line_of("/nowhere/at-all", &[]), None);
        assert_eq!(line_of("false", &[]), None);
    }
}

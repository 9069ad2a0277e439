//! [`Machine`]: where the numbers come from.

use std::ffi::OsStr;
use std::process::Command;
use std::{env, fmt, fs, thread};

use serde::{Deserialize, Serialize};

/// The machine that a run was done on. A fact that cannot be learned reads `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub profile: String,
    /// How the kernel sets the processor's clock: `performance`, or something that changes it while
    /// one measures.
    #[serde(default = "unknown")]
    pub governor: String,
    /// What the kernel does about the processor's flaws, which makes system calls dearer: those that are
    /// not `Not affected`.
    #[serde(default)]
    pub mitigations: Vec<String>,
    /// Whether this is a virtual machine, and of what kind.
    #[serde(default = "unknown")]
    pub virtualization: String,
    /// How many processes wanted to run in the minute before: what else the machine was doing.
    #[serde(default = "unknown")]
    pub load: String,
    /// This project's selectors: which would be chosen, and why those that cannot be had cannot.
    #[serde(default)]
    pub selectors: Vec<String>,
    /// Name and version of each rival that is built in, and of the others that took part.
    #[serde(default)]
    pub versions: Vec<String>,
}

impl Machine {
    /// Looks round. Reads files and starts three small programs: some milliseconds.
    pub fn look() -> Self {
        Self {
            cpu: cpu().unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel().unwrap_or_else(unknown),
            rustc: line_of(env::var("RUSTC").unwrap_or("rustc".into()), &["--version"])
                .unwrap_or_else(unknown),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.into(),
            governor: first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .unwrap_or_else(unknown),
            mitigations: mitigations(),
            virtualization: line_of("systemd-detect-virt", &[])
                .or_else(|| first_line("/sys/class/dmi/id/sys_vendor"))
                .or_else(hypervisor)
                .unwrap_or_else(unknown),
            load: first_line("/proc/loadavg")
                .and_then(|line| Some(line.split(' ').next()?.to_owned()))
                .unwrap_or_else(unknown),
            selectors: selectors(),
            versions: env!("LOOP_BENCH_VERSIONS")
                .split_terminator(',')
                .map(str::to_owned)
                .collect(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, kernel, rustc, profile, governor, load, .. } = self;
        write!(f, "{cpu}, {cores} cores, {kernel}, {rustc}, {profile} build")?;
        write!(f, "; governor {governor}, load {load}")
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

/// What the processor says of itself.
fn hypervisor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    let is_guest = flags.split(' ').any(|flag| flag == "hypervisor");
    Some(if is_guest { "a virtual machine" } else { "none" }.into())
}

fn mitigations() -> Vec<String> {
    let Ok(flaws) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return vec![] };
    let mut mitigations: Vec<String> = flaws
        .flatten()
        .filter_map(|flaw| {
            let state = fs::read_to_string(flaw.path()).ok()?;
            let (name, state) = (flaw.file_name(), state.trim());
            (state != "Not affected").then(|| format!("{}: {state}", name.to_string_lossy()))
        })
        .collect();
    mitigations.sort_unstable();
    mitigations
}

fn selectors() -> Vec<String> {
    let available = loop_selector::available();
    // In a thread of its own: the kernel may interrupt a thread to tidy up behind a ring.
    let look = move || {
        let state = |&name: &&'static str| match loop_selector::by_name(name) {
            Ok(_) => format!("{name}: usable"),
            Err(error) => format!("{name}: {error}"),
        };
        let mut told: Vec<String> = available.iter().map(state).collect();
        match loop_selector::probe() {
            Ok(report) => told.push(format!("chosen: {report}")),
            Err(error) => told.push(format!("chosen: none: {error}")),
        }
        told
    };
    thread::spawn(look).join().expect("no backend panics")
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

/// The first line that a program prints.
pub(crate) fn line_of(program: impl AsRef<OsStr>, args: &[&str]) -> Option<String> {
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
        assert!(machine.selectors.iter().any(|line| line.ends_with(": usable")), "{machine:?}");
    }

    #[test]
    fn a_program_that_is_not_there_has_no_line() {
        assert_eq!(line_of("/nowhere/at-all", &[]), None);
        assert_eq!(line_of("false", &[]), None);
    }
}

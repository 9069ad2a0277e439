//! [`CSource`]: a small program in C that is compiled when it is first needed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

/// The headers that the sources may include, which are written beside them.
const HEADERS: [(&str, &str); 2] =
    [("listen.h", include_str!("../c/listen.h")), ("echo.h", include_str!("../c/echo.h"))];

/// A program of one file.
#[derive(Hash)]
pub(crate) struct CSource {
    /// The program's.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// For the compiler: libraries too.
    pub(crate) flags: &'static [&'static str],
    /// What brings library and headers, as Debian names it.
    pub(crate) package: &'static str,
}

impl CSource {
    /// The program, compiled unless it has been already; or what is missing, and how to get it. It lies beside the
    /// present one, where what is built belongs, under a name that changes with its source.
    pub(crate) fn compile(&self) -> Result<PathBuf, String> {
        let ours = env::current_exe().map_err(|error| error.to_string())?;
        let mut hasher = DefaultHasher::new();
        (self, HEADERS).hash(&mut hasher);
        let program = ours.with_file_name(format!("{}-{:016x}", self.name, hasher.finish()));
        if program.is_file() {
            return Ok(program);
        }
        // Elsewhere first, for another run may be doing the same.
        let folder = ours.with_file_name(format!("{}-{}", self.name, process::id()));
        let compiled = self.compile_in(&folder).and_then(|new| {
            fs::rename(new, &program).map_err(|error| format!("{}: {error}", program.display()))
        });
        // What was compiled serves without it.
        _ = fs::remove_dir_all(&folder);
        compiled.map(|()| program)
    }

    fn compile_in(&self, folder: &Path) -> Result<PathBuf, String> {
        let [source, program] = ["source.c", "program"].map(|name| folder.join(name));
        let mut files = HEADERS.map(|(name, text)| (folder.join(name), text)).into_iter();
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&source, self.text))
            .and_then(|()| files.try_for_each(|(path, text)| fs::write(path, text)))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        // Libraries follow what needs them.
        let output = Command::new("cc")
            .args(["-O2", "-o"])
            .args([&program, &source])
            .args(self.flags)
            .output()
            .map_err(|error| format!("cc: {error}; try apt-get install gcc libc6-dev"))?;
        if output.status.success() {
            return Ok(program);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let told =
            text.lines().find(|line| line.contains("error:") || line.contains("cannot find"));
        let told = told.unwrap_or("failed");
        let told = told.split_once("error: ").map_or(told, |(_place, what)| what).trim();
        Err(format!("cc: {told}; try apt-get install {}", self.package))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: CSource = CSource {
        name: "answer",
        text: "int main(void) { return 42; }",
        flags: &[],
        package: "libc6-dev",
    };

    #[test]
    fn a_program_is_compiled_once() {
        let program = match SOURCE.compile() {
            Ok(program) => program,
            Err(missing) => return println!("answer: {missing}"),
        };
        assert_eq!(Command::new(&program).status().unwrap().code(), Some(42));
        let made = fs::metadata(&program).unwrap().modified().unwrap();
        assert_eq!(SOURCE.compile().as_ref(), Ok(&program));
        assert_eq!(fs::metadata(&program).unwrap().modified().unwrap(), made);
        let other = CSource { text: "int main(void) { return 1; }", ..SOURCE };
        assert_ne!(other.compile().unwrap(), program);
    }

    #[test]
    fn what_is_missing_is_told_with_its_package() {
        let text = "#include <no/such/header.h>\n";
        let told = CSource { name: "headless", text, ..SOURCE }.compile().unwrap_err();
        if !told.contains("gcc") {
            assert!(told.starts_with("cc: no/such/header.h: "), "{told}");
        }
        assert!(told.contains("; try apt-get install ") && told.ends_with("libc6-dev"), "{told}");
    }
}

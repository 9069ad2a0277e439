//! [`Recorder`]: writes a file of results.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::line::Line;

/// Writes a file line by line, so that a run that is ended has written what it measured.
#[derive(Debug)]
pub struct Recorder {
    file: Option<(PathBuf, fs::File)>,
}

impl Recorder {
    /// Writes to `path`, which is emptied, or to nothing.
    ///
    /// # Errors
    /// If the file cannot be made; the error names it.
    pub fn create(path: Option<&Path>) -> io::Result<Self> {
        let create = |path: &Path| {
            let file = fs::File::create(path).map_err(|error| named(path, &error))?;
            Ok::<_, io::Error>((path.to_owned(), file))
        };
        Ok(Self { file: path.map(create).transpose()? })
    }

    /// Writes a line.
    ///
    /// # Errors
    /// If that fails; the error names the file.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        writeln!(file, "{}", line.to_json()).map_err(|error| named(path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

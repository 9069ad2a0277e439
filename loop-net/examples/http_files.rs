//! A server for the files of a directory, over HTTP/1. A client that trickles its header, or is silent
//! for too long, is cut off.
//!
//! `cargo run -p loop-net --example http_files --features hyper -- 8080 /usr/share/doc`; a third argument is how many
//! seconds a connection may be silent.

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use loop_net::loop_core::BlockingTask;
use loop_net::{HyperIo, HyperTimer, LoopRef, Net, StreamReader, StreamWriter, run, sleep_until};

/// A header must have come within this.
const HEADER: Duration = Duration::from_secs(5);
/// Nothing may stand still for longer, between requests and in the middle of an answer, unless told
/// otherwise.
const IDLE: Duration = Duration::from_secs(15);
/// Read from a file at a time.
const PIECE: u64 = 128 * 1024;

/// When something last happened on a connection.
type Progress = Rc<Cell<Instant>>;

/// A piece of a file, and the file for the next one.
type Read = io::Result<(File, Vec<u8>)>;

/// The contents of a file, read by the loop's threads a piece at a time.
struct FileBody {
    file: Option<File>,
    left: u64,
    reading: Option<BlockingTask<Read>>,
    progress: Progress,
}

impl FileBody {
    fn new(file: Option<File>, left: u64, progress: Progress) -> FileBody {
        FileBody { file, left, reading: None, progress }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let lp = LoopRef::current();
        this.progress.set(lp.now());
        if let Some(mut file) = this.file.take().filter(|_| this.left > 0) {
            let count = this.left.min(PIECE);
            this.reading = Some(lp.run_blocking(move || {
                let mut bytes = Vec::with_capacity(count as usize);
                file.by_ref().take(count).read_to_end(&mut bytes)?;
                Ok((file, bytes))
            }));
        }
        let Some(reading) = &mut this.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(cx));
        this.reading = None;
        let (file, bytes) = read.map_err(io::Error::other)??;
        if bytes.is_empty() {
            let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the file has shrunk");
            return Poll::Ready(Some(Err(error)));
        }
        this.left -= bytes.len() as u64;
        this.file = Some(file);
        Poll::Ready(Some(Ok(Frame::data(bytes.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// What stands for a byte in a URL, such as `%20`, undone.
fn decoded(path: &str) -> Option<Vec<u8>> {
    let (mut decoded, mut bytes) = (Vec::new(), path.bytes());
    while let Some(mut byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            byte = (digit()? * 16 + digit()?) as u8;
        }
        decoded.push(byte);
    }
    Some(decoded)
}

/// The file that a request names, below `root`. `None` for names that lead elsewhere.
fn locate(root: &Path, path: &str) -> Option<PathBuf> {
    let name = decoded(path.trim_start_matches('/'))?;
    let relative = Path::new(OsStr::from_bytes(&name));
    let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| root.join(relative))
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let path = if path.is_dir() { &path.join("index.html") } else { path };
    let file = File::open(path)?;
    let meta = file.metadata()?;
    match meta.is_file() {
        true => Ok((file, meta.len())),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

fn kind_of(path: &str) -> &'static str {
    match Path::new(path).extension().and_then(|extension| extension.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("json") => "application/json",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

async fn answer(
    root: &Path,
    request: Request<Incoming>,
    progress: Progress,
) -> Result<Response<FileBody>, Infallible> {
    let status = |code, progress| {
        let mut response = Response::new(FileBody::new(None, 0, progress));
        *response.status_mut() = code;
        response
    };
    progress.set(LoopRef::current().now());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = status(StatusCode::METHOD_NOT_ALLOWED, progress);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(response);
    }
    let Some(path) = locate(root, request.uri().path()) else {
        return Ok(status(StatusCode::NOT_FOUND, progress));
    };
    let opened = LoopRef::current().run_blocking(move || open(&path)).await;
    let (file, length) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(status(StatusCode::FORBIDDEN, progress));
        }
        _ => return Ok(status(StatusCode::NOT_FOUND, progress)),
    };
    let mut response = Response::new(FileBody::new(Some(file), length, progress));
    let kind = HeaderValue::from_static(kind_of(request.uri().path()));
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Serves a connection until its end, or until nothing has happened on it for too long.
async fn serve(root: Rc<Path>, idle: Duration, reader: StreamReader, writer: StreamWriter) {
    let lp = LoopRef::current();
    let progress = Rc::new(Cell::new(lp.now()));
    let noted = progress.clone();
    let service = service_fn(move |request| {
        let (root, progress) = (root.clone(), noted.clone());
        async move { answer(&root, request, progress).await }
    });
    let transport = writer.transport().clone();
    let mut builder = http1::Builder::new();
    builder.timer(HyperTimer).header_read_timeout(HEADER);
    let mut connection = pin!(builder.serve_connection(HyperIo::new(reader, writer), service));
    let mut limit = sleep_until(progress.get() + idle);
    poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        // One timer a connection, put off only when it fires.
        while Pin::new(&mut limit).poll(cx).is_ready() {
            if progress.get() + idle <= lp.now() {
                transport.abort();
                return Poll::Ready(());
            }
            limit = sleep_until(progress.get() + idle);
        }
        Poll::Pending
    })
    .await;
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let port = args.next().unwrap_or_else(|| "8080".to_owned());
    let root: Rc<Path> = PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned())).into();
    let idle = args.next().and_then(|idle| idle.parse().ok()).map_or(IDLE, Duration::from_secs);
    run(async move {
        let lp = LoopRef::current();
        let serving = Net::os(&lp).tcp_server(format!("127.0.0.1:{port}"));
        let serving = serving.serve_streams(async move |reader, writer| {
            serve(root.clone(), idle, reader, writer).await
        });
        let server = serving.await?;
        println!("listening on {}", server.local_addrs()[0]);
        server.serve_until_interrupted().await?;
        server.drain(Duration::from_secs(1)).await;
        Ok(())
    })?
}

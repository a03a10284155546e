//! Asks a container engine on a unix socket whether it is there, with the least HTTP that does it.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::printable;

/// A local engine answers within milliseconds; one that starts up on demand within this.
pub(super) const DEADLINE: Duration = Duration::from_secs(1);
/// The headers of a `_ping` take a few hundred bytes.
const LONGEST_ANSWER: u64 = 4096;
const REQUEST: &[u8] = b"GET /_ping HTTP/1.0\r\n\r\n";

/// What a socket turned out to be, from the worst news to the best.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    NoSocket,
    /// The file is there, and nobody listens: left over, or the service is down.
    NobodyServes,
    NotAnEngine(String),
    /// Somebody listens and says nothing in time.
    Silent,
    Denied,
    Serves {
        engine: Engine,
        api_version: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Engine {
    Docker,
    Podman,
}

/// Asks within the deadline. The asking thread is left to its own time-outs when it is late: connecting to a
/// socket whose queue is full cannot be interrupted.
pub(super) fn ping(socket: &Path, deadline: Duration) -> Answer {
    match socket.metadata() {
        Err(error) => return from_error(&error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Answer::NotAnEngine("it is not a socket".to_owned());
        }
        Ok(_) => {}
    }
    let (sender, receiver) = mpsc::channel();
    let socket: PathBuf = socket.to_owned();
    let asking = thread::Builder::new().name("ping".into()).spawn(move || {
        let _ = sender.send(ask(&socket, deadline));
    });
    match asking.and_then(|_| receiver.recv_timeout(deadline).map_err(|_| io::ErrorKind::TimedOut.into())) {
        Ok(Ok(text)) => from_text(&text),
        Ok(Err(error)) | Err(error) => from_error(&error),
    }
}

fn ask(socket: &Path, deadline: Duration) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    stream.write_all(REQUEST)?;
    let mut bytes = Vec::new();
    let read = stream.take(LONGEST_ANSWER).read_to_end(&mut bytes);
    // An engine that keeps the connection open has still answered.
    match read {
        Err(error) if !has_ended(&bytes) => Err(error),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn has_ended(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|four| four == b"\r\n\r\n")
}

fn from_error(error: &io::Error) -> Answer {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Answer::NoSocket,
        io::ErrorKind::ConnectionRefused => Answer::NobodyServes,
        io::ErrorKind::PermissionDenied => Answer::Denied,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Answer::Silent,
        _ => Answer::NotAnEngine(error.to_string()),
    }
}

fn from_text(text: &str) -> Answer {
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !(status.starts_with("HTTP/1.") && status.split(' ').nth(1) == Some("200")) {
        return Answer::NotAnEngine(format!("it answered `{}`", printable(status)));
    }
    let headers: Vec<(&str, &str)> =
        lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':')).collect();
    let header = |name: &str| {
        let found = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| printable(value))
    };
    let engine = if header("Libpod-API-Version").is_some() { Engine::Podman } else { Engine::Docker };
    match header("Api-Version") {
        Some(api_version) => Answer::Serves { engine, api_version },
        None => Answer::NotAnEngine("it answered without an `Api-Version`".to_owned()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::net::UnixListener;

    use tempfile::TempDir;

    use super::*;

    /// A socket that somebody listens on, and the directory that keeps it.
    pub(in super::super) fn serving(answer: &'static str) -> (TempDir, PathBuf) {
        let (dir, path) = place();
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; REQUEST.len()];
                stream.read_exact(&mut request).unwrap();
                assert_eq!(request, REQUEST);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        (dir, path)
    }

    pub(in super::super) fn place() -> (TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("engine.sock");
        (dir, path)
    }

    pub(in super::super) const DOCKER: &str =
        "HTTP/1.0 200 OK\r\nApi-Version: 1.41\r\nServer: Docker/20.10.24 (linux)\r\n\r\nOK";

    #[test]
    fn an_engine_tells_its_version() {
        let (_dir, path) = serving(DOCKER);
        let expected = Answer::Serves { engine: Engine::Docker, api_version: "1.41".into() };
        assert_eq!(ping(&path, DEADLINE), expected);

        let (_dir, path) =
            serving("HTTP/1.1 200 OK\r\napi-version: 1.40\r\nLibpod-Api-Version: 4.3.1\r\n\r\nOK");
        let expected = Answer::Serves { engine: Engine::Podman, api_version: "1.40".into() };
        assert_eq!(ping(&path, DEADLINE), expected);
    }

    #[test]
    fn something_else_is_told_apart_and_cannot_steer_the_terminal() {
        let (_dir, path) = serving("\u{1b}[2Jhello");
        assert_eq!(ping(&path, DEADLINE), Answer::NotAnEngine("it answered `[2Jhello`".into()));
        let (_dir, path) = serving("HTTP/1.0 200 OK\r\n\r\n");
        assert!(matches!(ping(&path, DEADLINE), Answer::NotAnEngine(_)));
        let (_dir, path) = place();
        std::fs::write(&path, "").unwrap();
        assert_eq!(ping(&path, DEADLINE), Answer::NotAnEngine("it is not a socket".into()));
    }

    #[test]
    fn a_listener_that_never_answers_is_silent() {
        let (_dir, path) = place();
        let _listener = UnixListener::bind(&path).unwrap();
        assert_eq!(ping(&path, Duration::from_millis(50)), Answer::Silent);
    }

    #[test]
    fn a_file_that_nobody_serves_is_told_from_no_file() {
        let (_dir, path) = place();
        assert_eq!(ping(&path, DEADLINE), Answer::NoSocket);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(ping(&path, DEADLINE), Answer::NobodyServes);
        assert_eq!(ping(&path.join("below"), DEADLINE), Answer::NoSocket);
    }

    #[test]
    fn a_refused_permission_has_its_own_name() {
        // As root every socket may be used, so the error is made by hand.
        assert_eq!(from_error(&io::ErrorKind::PermissionDenied.into()), Answer::Denied);
    }
}

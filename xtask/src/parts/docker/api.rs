//! As much of the Docker API as it takes to see that an engine answers.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use crate::failure::Failure;

/// An engine that is up answers in milliseconds. One that hangs must not hang us.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The answer is about 1 KiB. More than this is not an engine.
const MOST_BYTES: u64 = 64 * 1024;

/// Asks the engine behind a socket for its version.
pub(super) fn version(socket: &Path) -> Result<String, Failure> {
    let answer = ask(socket).map_err(|source| Failure::file("ask the Docker engine at", socket, &source))?;
    version_in(&answer)
        .ok_or_else(|| Failure::new(format!("what listens at `{}` is not a Docker engine", socket.display())))
}

fn ask(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // HTTP 1.0: the engine closes the connection after its answer, and does not send it in chunks.
    stream.write_all(b"GET /version HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MOST_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

fn version_in(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let is_ok = head.lines().next()?.split(' ').nth(1)? == "200";
    let body: serde_json::Value = serde_json::from_str(body).ok().filter(|_| is_ok)?;
    body.get("Version")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn only_an_engine_has_a_version() {
        let engine = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"Version\":\"20.10.24\"}";
        assert_eq!(version_in(engine).as_deref(), Some("20.10.24"));
        assert_eq!(version_in("HTTP/1.0 503 Unavailable\r\n\r\n{\"Version\":\"1\"}"), None);
        assert_eq!(version_in("SSH-2.0-OpenSSH_9.2"), None);
    }
}

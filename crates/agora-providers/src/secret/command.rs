//! Secrets that a command prints: `op read …`, `vault kv get …`.

use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use agora_core::limits::SECRET_BYTES;
use agora_core::secret::{SecretValue, ShortSecrets};
use agora_core::wire::bootstrap::Supplied;

use crate::aside::aside;

/// A person may have to touch a key; nobody waits longer for one.
const PATIENCE: Duration = Duration::from_secs(30);
/// What of the command's own words is told. They may be anything, but the value goes to standard output.
const LONGEST_WORDS: usize = 300;

/// Runs a command, and takes what it prints as the value, without one line break at its end.
pub async fn command_secret(command: &str) -> Supplied {
    let line = command.to_owned();
    match aside("secret-command", move || run(&line, PATIENCE)).await {
        Ok(supplied) => supplied,
        Err(error) => Supplied::Unreachable(error.to_string()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one command that a provider must run")]
fn run(command: &str, patience: Duration) -> Supplied {
    let spawned = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) => return Supplied::Unreachable(format!("`{command}` was not started: {error}")),
    };
    hear(command, child, patience)
}

fn hear(command: &str, mut child: Child, patience: Duration) -> Supplied {
    let (sender, said) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::spawn(move || {
        let value = stdout.map_or(Ok(Vec::new()), |out| read(out, SECRET_BYTES as u64 + 3));
        let words = stderr.map_or(Ok(Vec::new()), |err| read(err, 64 * 1024)).unwrap_or_default();
        let _ = sender.send((value, words));
    });
    let heard = said.recv_timeout(patience);
    if matches!(heard, Err(RecvTimeoutError::Timeout)) {
        let _ = child.kill();
    }
    let ended = child.wait();
    let Ok((value, words)) = heard else {
        return Supplied::Unreachable(format!(
            "`{command}` did not end within {} seconds",
            patience.as_secs()
        ));
    };
    let words = String::from_utf8_lossy(&words).trim().chars().take(LONGEST_WORDS).collect::<String>();
    match (ended, value) {
        (Ok(status), Ok(bytes)) if status.success() => value_of(command, bytes),
        (Ok(status), Ok(_)) => Supplied::Missing(format!("`{command}` ended with {status}: {words}")),
        (Err(error), _) | (_, Err(error)) => Supplied::Unreachable(format!("`{command}`: {error}")),
    }
}

fn read(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn value_of(command: &str, bytes: Vec<u8>) -> Supplied {
    let missing = |why: String| Supplied::Missing(format!("what `{command}` prints is no secret: {why}"));
    let Ok(mut text) = String::from_utf8(bytes) else { return missing("it is not UTF-8".to_owned()) };
    if text.ends_with('\n') {
        text.pop();
    }
    // Whoever wrote the reference knows what the command prints.
    match SecretValue::new(text, ShortSecrets::Allow) {
        Ok(value) => Supplied::Value(value),
        Err(error) => missing(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_prints_is_the_value() {
        let told = |command: &str| match run(command, Duration::from_secs(20)) {
            Supplied::Value(value) => value.expose().to_owned(),
            Supplied::Missing(why) => format!("missing: {why}"),
            Supplied::Unreachable(why) => format!("unreachable: {why}"),
        };
        assert_eq!(told("printf 'two\\nlines\\n'"), "two\nlines");
        assert!(told("echo no such item >&2; exit 4").contains("no such item"));
        assert!(told("true").starts_with("missing: "));
        assert!(told("head -c 100000 /dev/zero | tr '\\0' x").starts_with("missing: "));
        let late = run("sleep 1000", Duration::from_millis(50));
        assert!(matches!(late, Supplied::Unreachable(_)), "{late:?}");
    }
}

//! Runs the program that tells somebody.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::Way;
use crate::words;

/// Nobody waits longer for a program that only has to pass something on.
const PATIENCE: Duration = Duration::from_secs(10);
/// What of a program's own words is kept.
const LONGEST_WORDS: usize = 200;

/// Tells by one way. `Err`: why nobody was told, perhaps.
pub(super) fn run(way: &Way, path: Option<&OsStr>, summary: &str, document: &str) -> Result<(), String> {
    run_within(way, path, summary, document, PATIENCE)
}

fn run_within(
    way: &Way,
    path: Option<&OsStr>,
    summary: &str,
    document: &str,
    patience: Duration,
) -> Result<(), String> {
    let (program, arguments) = match way {
        Way::Desktop => {
            ("notify-send", vec!["--app-name=agora".to_owned(), "--".to_owned(), summary.to_owned()])
        }
        Way::Command(words) => match words.split_first() {
            Some((program, arguments)) => (program.as_str(), arguments.to_vec()),
            None => return Ok(()),
        },
    };
    let found = find(program, path).ok_or_else(|| format!("there is no `{program}` on the path"))?;
    let child = start(found, &arguments).map_err(|error| format!("`{program}` was not started: {error}"))?;
    hear(program, child, document, patience)
}

fn find(program: &str, path: Option<&OsStr>) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    std::env::split_paths(path?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_absolute() && path.is_file())
}

#[expect(clippy::disallowed_methods, reason = "a person's own program, which they chose to be told by")]
fn start(program: PathBuf, arguments: &[String]) -> io::Result<Child> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // A group of its own: Ctrl-C in the terminal is not for it, and all that it starts can be ended.
        .process_group(0)
        .spawn()
}

fn hear(program: &str, mut child: Child, document: &str, patience: Duration) -> Result<(), String> {
    let (sender, said) = mpsc::channel();
    let (input, words) = (child.stdin.take(), child.stderr.take());
    let document = document.to_owned();
    let telling = move || {
        if let Some(mut input) = input {
            // One that does not read it is told all the same.
            let _ = input.write_all(document.as_bytes()).and_then(|()| input.write_all(b"\n"));
        }
        let _ = sender.send(words.map(words::beginning).unwrap_or_default());
    };
    thread::Builder::new().name("notify".into()).spawn(telling).map_err(|error| error.to_string())?;
    let heard = said.recv_timeout(patience);
    if matches!(heard, Err(RecvTimeoutError::Timeout)) {
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
        return Err(format!("`{program}` did not end within {} seconds", patience.as_secs()));
    }
    let ended = child.wait().map_err(|error| format!("`{program}`: {error}"))?;
    if ended.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&heard.unwrap_or_default()).into_owned();
    let words: String =
        words.trim().chars().filter(|letter| !letter.is_control()).take(LONGEST_WORDS).collect();
    Err(format!("`{program}` ended with {ended}: {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str, patience: Duration) -> Result<(), String> {
        let way = Way::Command(vec!["sh".into(), "-c".into(), line.into()]);
        run_within(&way, Some(OsStr::new("/usr/bin:/bin")), "a summary", r#"{"kind": "opened"}"#, patience)
    }

    #[test]
    fn a_program_gets_the_document_and_says_how_it_went() {
        let long = Duration::from_secs(20);
        let dir = tempfile::tempdir().unwrap();
        let got = dir.path().join("got");
        told(&format!("cat > {}", got.display()), long).unwrap();
        assert_eq!(std::fs::read_to_string(got).unwrap(), "{\"kind\": \"opened\"}\n");
        assert_eq!(told("exec true", long), Ok(()), "it need not read");
        assert_eq!(told("head -c 200000 /dev/zero >&2", long), Ok(()), "it may say as much as it likes");
        let why = told("echo no network >&2; exit 3", long).unwrap_err();
        assert_eq!(why, "`sh` ended with exit status: 3: no network");
        let late = told("sleep 1000 & sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert!(late.contains("did not end within"), "{late}");
        let way = Way::Command(vec!["no-such-program".into()]);
        let missing = run_within(&way, Some(OsStr::new("/bin")), "", "", long).unwrap_err();
        assert_eq!(missing, "there is no `no-such-program` on the path");
    }
}

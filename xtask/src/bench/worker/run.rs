//! One run of the worker, started as an engine starts it.

use std::{
    fs,
    io::{self, PipeWriter, Read as _, Write as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agora_testkit::worker::Dispatch;
use serde_json::Value;

use super::Subject;
use crate::{
    failure::Failure,
    stopwatch::{Stopwatch, poll},
};

/// The longest of these runs takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Returns the worker as the test kit wants it named.
pub(super) fn path(subject: &Subject) -> Result<String, Failure> {
    let worker = subject.worker()?;
    let text = worker.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::new(format!("`{}` is not UTF-8", worker.display())))
}

/// Returns how long the worker took, from its start to its end. Neither is what was put together before, nor what is
/// checked afterwards.
pub(super) fn time(dispatch: &Dispatch) -> Result<Duration, Failure> {
    let line = dispatch.bootstrap().to_line();
    let mut command = dispatch.command();
    let stopwatch = Stopwatch::start();
    let mut child = start(&mut command, line.expose())?;
    let said = hear(&mut child)?;
    let ended = child.wait().map_err(lost)?;
    let took = stopwatch.elapsed();
    if ended.success() { finished(dispatch, &said).map(|()| took) } else { Err(unfinished(&said)) }
}

/// Returns the most memory in bytes that the worker's own process ever had.
///
/// The kernel forgets that with the process, so that the worker must not end before it is asked. It waits for somebody who
/// takes its lines, and nobody does until the outcome is stored: that is the last thing that needs memory.
pub(super) fn peak(dispatch: &Dispatch) -> Result<u64, Failure> {
    let line = dispatch.bootstrap().to_line();
    let (mut reader, writer) = io::pipe().map_err(lost)?;
    let filled = fill(&writer).map_err(lost)?;
    let mut child = start(dispatch.command().stdout(writer).stderr(Stdio::null()), line.expose())?;
    let outcome = dispatch.dir().join("out/outcome.json");
    let stored = poll(LIMIT, || outcome.exists().then_some(()));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mut said = String::new();
    reader.read_to_string(&mut said).map_err(lost)?;
    child.wait().map_err(lost)?;
    finished(dispatch, &said[filled..])?;
    let peak = stored.and_then(|()| peak_in(&status));
    peak.ok_or_else(|| Failure::new("the worker ended before its memory could be asked for"))
}

fn start(command: &mut Command, line: &str) -> Result<Child, Failure> {
    let mut child = command.spawn().map_err(lost)?;
    let stdin = child.stdin.take();
    stdin.map_or(Ok(()), |mut stdin| stdin.write_all(line.as_bytes())).map_err(lost)?;
    Ok(child)
}

fn hear(child: &mut Child) -> Result<String, Failure> {
    let mut said = String::new();
    child.stdout.take().map_or(Ok(0), |mut stdout| stdout.read_to_string(&mut said)).map_err(lost)?;
    Ok(said)
}

/// Writes as much as the pipe takes, and returns how much that is.
fn fill(mut pipe: &PipeWriter) -> io::Result<usize> {
    let room = rustix::pipe::fcntl_getpipe_size(pipe)?;
    pipe.write_all(&vec![b'\n'; room])?;
    Ok(room)
}

/// Checks that the worker did what is measured: its last line is the end of the dispatch, and is stored.
fn finished(dispatch: &Dispatch, said: &str) -> Result<(), Failure> {
    let last = said.lines().last().unwrap_or_default();
    let kind = serde_json::from_str::<Value>(last).ok().map(|line| line["kind"].clone());
    let stored = fs::read_to_string(dispatch.dir().join("out/outcome.json")).unwrap_or_default();
    let done = kind == Some("dispatch.finished".into()) && stored.trim_end() == last;
    if done { Ok(()) } else { Err(unfinished(said)) }
}

fn unfinished(said: &str) -> Failure {
    Failure::new("the worker did not finish its dispatch").because(crate::process::last_lines(said))
}

fn lost(source: io::Error) -> Failure {
    Failure::new("could not run the worker").because(source.to_string())
}

/// Reads the peak out of `/proc/<id>/status`.
pub(in super::super) fn peak_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::peak_in;

    #[test]
    fn the_peak_is_read_where_there_is_one() {
        assert_eq!(peak_in("Name:\tx\nVmPeak:\t  900 kB\nVmHWM:\t  7 kB\nVmRSS:\t 5 kB\n"), Some(7 * 1024));
        assert_eq!(peak_in("Name:\tVmHWM: 3 kB\nState:\tZ (zombie)\n"), None);
    }
}

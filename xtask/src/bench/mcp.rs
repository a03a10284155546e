//! The MCP server: how long a client waits for the tools, and what it takes while nobody calls it.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout},
    time::Duration,
};

use super::{Figure, Subject, rounds, startup::SPAWN};
use crate::{failure::Failure, stopwatch::Stopwatch};

/// Starts in a round.
const STARTS: u32 = 20;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

/// From the start of the process to the answer to `tools/list`, as a client does it: with a handshake.
pub(super) fn first_answer(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let home = subject.directory("mcp-home")?;
    let mut start = || {
        let mut total = Duration::ZERO;
        for _ in 0..STARTS {
            let stopwatch = Stopwatch::start();
            let server = Server::start(subject, &home)?;
            total += stopwatch.elapsed();
            server.end()?;
        }
        Ok(total / STARTS)
    };
    let mut nothing = Subject::nothing();
    let [measured, floor] =
        rounds::medians([&mut start, &mut || rounds::mean_of(&mut nothing, STARTS * 10)])?;
    let server = Server::start(subject, &home)?;
    let memory = resident(server.child.id())?;
    server.end()?;
    Ok(vec![
        Figure::time("`agora mcp`, start to `tools/list`", measured, SPAWN, floor).wish("≤ 15 ms"),
        Figure::memory("`agora mcp`, idle after `tools/list`", memory),
    ])
}

/// A server that has said which tools it has.
struct Server {
    child: Child,
    stdin: ChildStdin,
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    fn start(subject: &Subject, home: &std::path::Path) -> Result<Self, Failure> {
        let mut child = subject.agora(home).arg("mcp").converse()?;
        let lost = || Failure::new("the server has no pipes");
        let mut stdin = child.stdin.take().ok_or_else(lost)?;
        let mut stdout = BufReader::new(child.stdout.take().ok_or_else(lost)?);
        writeln!(stdin, "{HELLO}").and_then(|()| writeln!(stdin, "{READY}\n{LIST}")).map_err(broken)?;
        let mut line = String::new();
        while !line.contains("agora_dispatch") {
            line.clear();
            if stdout.read_line(&mut line).map_err(broken)? == 0 {
                return Err(Failure::new("the server ended before it said which tools it has"));
            }
        }
        Ok(Self { child, stdin, _stdout: stdout })
    }

    fn end(self) -> Result<(), Failure> {
        let Self { mut child, stdin, _stdout } = self;
        drop(stdin);
        child.wait().map(drop).map_err(broken)
    }
}

/// Returns the memory that a process has now.
fn resident(process: u32) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).map_err(broken)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes
        .map(|number| number * 1024)
        .ok_or_else(|| Failure::new("the kernel does not say how much memory it has"))
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::new("the MCP server could not be measured").because(error.to_string())
}

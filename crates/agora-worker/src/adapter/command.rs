//! Any program as an agent: the prompt on standard input, the input in `.agora/input.json`, success by its exit code.

use agora_core::bundle;
use agora_core::reason::FailureCode;

use super::{End, Invocation, Job, Listener, RuntimeExit, Verdict};
use crate::child::{How, Input, SoftSignal, Why};
use crate::fault::Fault;

pub(super) fn plan(job: &Job<'_>) -> Result<Invocation, Fault> {
    let bundle::Runtime::Command(command) = &job.task.subagent.runtime else {
        let why = "the subagent has no `command`".to_owned();
        return Err(Fault::NoAdapter { runtime: "command".to_owned(), why });
    };
    let (program, arguments) =
        command.split_first().map(|(program, rest)| (program.clone(), rest)).unwrap_or_default();
    Ok(Invocation {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: Vec::new(),
        stdin: Input::Bytes(job.prompt.clone().into_bytes()),
        soft: SoftSignal::Terminate,
        listener: Box::new(Silent),
        resumed: false,
    })
}

/// Whatever a command prints is its final text.
struct Silent;

impl Listener for Silent {
    fn line(&mut self, _: &[u8]) -> Option<Why> {
        None
    }

    fn conclude(self: Box<Self>, end: &End<'_>) -> RuntimeExit {
        let verdict = match end.ended.how {
            How::Exited(0) => Verdict::Success,
            How::Exited(_) | How::Killed(_) => {
                Verdict::failed(FailureCode::AgentExit, end.story("the command"))
            }
        };
        RuntimeExit::new(verdict, end.stdout)
    }
}

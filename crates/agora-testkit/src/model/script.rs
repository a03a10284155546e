//! What a model says, turn by turn.

use std::time::Duration;

use serde_json::Value;

/// What one request is answered with.
#[derive(Clone, Debug)]
pub struct Turn {
    /// How many requests in a row this answers.
    pub(super) times: usize,
    pub(super) delay: Duration,
    pub(super) headers: Vec<(String, String)>,
    pub(super) answer: Answer,
}

#[derive(Clone, Debug)]
pub(super) enum Answer {
    Reply(Reply),
    /// The connection closes within the reply.
    Cut(Cut, Reply),
    Error(Refusal),
    /// Not a byte, until the server stops.
    Hang,
}

/// How much of a reply comes through before the connection closes. The last byte or event never does, so that a
/// cut is always one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Bytes(usize),
    Events(usize),
}

/// What the model says.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) blocks: Vec<Block>,
    pub(super) usage: Usage,
}

#[derive(Clone, Debug)]
pub(super) enum Block {
    Text(String),
    Tool {
        name: String,
        input: Value,
    },
    /// The wire decides which tool it is.
    Shell(String),
    WriteFile {
        path: String,
        content: String,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
}

/// An answer that is an error of the service.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) message: String,
}

impl Turn {
    /// Says something. Without a tool call this ends the agent's run.
    pub fn text(text: impl Into<String>) -> Self {
        Self::reply(vec![Block::Text(text.into())])
    }

    /// Calls a tool by its name on the wire.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::tools(vec![(name.into(), input)])
    }

    /// Calls several tools at once.
    pub fn tools(calls: Vec<(String, Value)>) -> Self {
        Self::reply(calls.into_iter().map(|(name, input)| Block::Tool { name, input }).collect())
    }

    /// Says something and calls a tool.
    pub fn text_and_tool(text: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::reply(vec![Block::Text(text.into()), Block::Tool { name: name.into(), input }])
    }

    /// Runs a shell command, with the tool that the agent has for it.
    pub fn shell(command: impl Into<String>) -> Self {
        Self::reply(vec![Block::Shell(command.into())])
    }

    /// Writes a text file, with the tool that the agent has for it. Where that is the shell, the directories on the
    /// way are made, and the file ends with a newline.
    pub fn write_file(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self::reply(vec![Block::WriteFile { path: path.into(), content: content.into() }])
    }

    /// Answers with an error of the service, such as 529 and `overloaded_error`.
    pub fn error(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Answer::Error(Refusal { status, kind: kind.into(), message: message.into() }))
    }

    /// Answers several requests in a row with the same error. From a function it is one answer: the function is asked
    /// again.
    pub fn error_times(
        times: usize,
        status: u16,
        kind: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { times, ..Self::error(status, kind, message) }
    }

    /// Waits before it answers. A server that stops does not wait.
    pub fn delay(time: Duration, then: Self) -> Self {
        Self { delay: then.delay + time, ..then }
    }

    /// Closes the connection within a reply.
    #[track_caller]
    pub fn cut_after(cut: Cut, reply: Self) -> Self {
        match reply.answer {
            Answer::Reply(inner) | Answer::Cut(_, inner) => Self { answer: Answer::Cut(cut, inner), ..reply },
            Answer::Error(_) | Answer::Hang => panic!("only a reply can be cut"),
        }
    }

    /// Holds the connection without a byte until the server stops.
    pub fn hang() -> Self {
        Self::new(Answer::Hang)
    }

    /// Says what the reply is said to have cost, in tokens.
    #[must_use]
    #[track_caller]
    pub fn with_usage(mut self, input: u64, output: u64) -> Self {
        match &mut self.answer {
            Answer::Reply(reply) | Answer::Cut(_, reply) => reply.usage = Usage { input, output },
            Answer::Error(_) | Answer::Hang => panic!("only a reply uses tokens"),
        }
        self
    }

    /// Adds a header to the answer, such as `retry-after`.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    fn reply(blocks: Vec<Block>) -> Self {
        Self::new(Answer::Reply(Reply { blocks, usage: Usage { input: 100, output: 20 } }))
    }

    fn new(answer: Answer) -> Self {
        Self { times: 1, delay: Duration::ZERO, headers: Vec::new(), answer }
    }

    /// Returns the turn once for each request that it answers.
    pub(super) fn unrolled(self) -> impl Iterator<Item = Self> {
        let once = Self { times: 1, ..self };
        std::iter::repeat_n(once, self.times)
    }
}

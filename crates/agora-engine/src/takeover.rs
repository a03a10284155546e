//! A thread in the hands of a person, at a terminal.

use std::os::fd::OwnedFd;

use agora_core::answer::Answerer;
use agora_core::provider::compute::Terminal;

use crate::carry::accept::Accepted;
use crate::dispatch::login::Again;
use crate::dispatch::result::NeedsInput;
use crate::error::Error;
use crate::handle::Thread;

/// What somebody who took a thread over finds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TakenOver {
    /// Whose interactive program it is, by the adapter's word. Only `claude-code` and `codex` have one: for the others it is a shell.
    pub runtime: String,
    /// Whether there is a conversation that goes on.
    pub has_conversation: bool,
    /// What was asked, and nobody else answers any more.
    pub question: Option<NeedsInput>,
}

impl TakenOver {
    /// Tells whether the runtime has an interactive program.
    pub fn is_interactive(&self) -> bool {
        matches!(self.runtime.as_str(), "claude-code" | "codex")
    }
}

impl Thread {
    /// Takes the thread over: a person goes on with it themself, in the runtime's own interactive program, at the terminal whose end
    /// this is. It is the thread's next dispatch, and carried in this process. A question that is open ends without an answer.
    ///
    /// The terminal's other end is the caller's, and must be theirs until the dispatch has ended: without it the agent ends.
    pub async fn take_over(&self, by: &Answerer, terminal: OwnedFd) -> Result<(Self, TakenOver), Error> {
        let engine = &self.engine;
        let lease = engine.lease_to_take_over(self.id()).await.map_err(Error::Accept)?;
        let Again { login, used, staged } = self.log_in_again().await?;
        let login = login.map_err(|vendor| Error::NoLogin { vendor })?;
        self.see_startable(&login, &staged).await?;
        self.agora.stage(&staged, self.id()).await?;
        let accepted = engine.take_over(self.id(), by, Terminal::new(terminal), Some(&login), &*lease).await;
        let (Accepted { dispatch_id, thread_id, .. }, asked) = accepted.map_err(Error::Accept)?;
        let runtime = engine.papers(&dispatch_id).await.map_err(Error::Carry)?.job.runtime;
        let has_conversation = engine.has_conversation(&thread_id).await.map_err(Error::Carry)?;
        let next = Self::new(self.agora.clone(), engine.clone(), thread_id, dispatch_id);
        let next = next.with_login(used).novel(true);
        next.carry_accepted(lease);
        let question = asked.as_ref().map(NeedsInput::new);
        Ok((next, TakenOver { runtime, has_conversation, question }))
    }
}

//! `agora_wait`: returns when something has ended, and becomes the question when somebody is asked.

use std::time::Duration;

use agora_core::ThreadId;
use agora_core::provider::ledger::Watch;
use agora_core::state::ThreadState;
use agora_engine::Thread;
use rmcp::RoleServer;
use rmcp::model::{
    CreateTaskResult, ErrorData, InputRequiredResult, InputResponses, ProgressNotificationParam,
    ProgressToken,
};
use rmcp::service::{Peer, RequestContext};
use tokio::time::Instant;

use super::Trouble;
use super::arguments::{LONGEST_WAIT_SECONDS, Until, WaitArguments};
use super::asking::{OpenNow, Outcome, open_question, response};
use super::client::{Asking, Client};
use super::desk::{Desk, Opened};
use super::form::filled;
use super::reply::{AskedReply, ThreadReply, WaitStatus, WaitedReply};

/// How long a person may look at a form before the call is given back to the model. The question stays open.
const FORM_TIME: Duration = Duration::from_secs(600);
/// How often a client that wants to know hears that the call is alive, and how often it is looked whether a carrier died.
const TICK: Duration = Duration::from_secs(5);
/// How often a form is shown again whose answer does not fit.
const FORM_TRIES: usize = 3;

/// What ends the call.
#[derive(Debug)]
pub(crate) enum Waited {
    Reply(Box<WaitedReply>),
    /// The call is to come back with an answer.
    Ask(Box<InputRequiredResult>),
    /// The client waits by itself.
    Task(Box<CreateTaskResult>),
}

/// Why the call has no end of its own.
#[derive(Debug)]
pub(crate) enum CallError {
    Trouble(Trouble),
    /// The request is no request of the protocol.
    Protocol(ErrorData),
}

impl From<Trouble> for CallError {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

/// What a call brings beside its arguments.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) responses: Option<&'a InputResponses>,
    pub(crate) state: Option<&'a str>,
}

/// Where a thread stands, for who waits.
enum Standing {
    Working,
    Asks(Box<OpenNow>),
    Rests,
}

/// A thread that is waited for.
struct Awaited {
    thread: Thread,
    standing: Standing,
}

impl Desk {
    pub(crate) async fn wait(
        &self,
        client: &Client,
        call: Call<'_>,
        arguments: WaitArguments,
    ) -> Result<Waited, CallError> {
        let opened = self.opened().await?;
        if let Some(state) = call.state
            && let Some(ended) = self.come_back(opened, client, &call, state).await?
        {
            return Ok(ended);
        }
        self.recover(opened).await?;
        let ids = self.awaited_ids(opened, client, &arguments).await?;
        let by_name = arguments.threads.is_some();
        // Before anything is looked at: what is recorded in between is heard.
        let mut watch = opened.engine.world().ledger.watch().map_err(|error| self.ledger_trouble(error))?;
        let seconds = arguments.timeout_seconds.unwrap_or(LONGEST_WAIT_SECONDS).min(LONGEST_WAIT_SECONDS);
        let waiting = Waiting {
            desk: self,
            opened,
            client,
            call: &call,
            ids,
            by_name,
            until: arguments.until,
            time: Duration::from_secs(seconds),
            progress: Progress::of(call.context),
        };
        waiting.run(&mut *watch).await
    }

    /// Takes in what a call brings back. `None`: it goes on as any other.
    async fn come_back(
        &self,
        opened: &Opened,
        client: &Client,
        call: &Call<'_>,
        state: &str,
    ) -> Result<Option<Waited>, CallError> {
        let taken = opened.states()?.take(state, client.owner.as_str(), opened.now());
        let asked = taken.map_err(|bad| CallError::Protocol(ErrorData::invalid_params(bad.words(), None)))?;
        let thread = self.thread(opened, client, asked.question.as_str()).await?;
        let Some(open) =
            self.look(&thread).await?.1.filter(|open| open.id == asked.question && open.hash == asked.hash)
        else {
            // Somebody else was first, and it goes on.
            return Ok(None);
        };
        let ask_again = |problem: Option<&str>| {
            let again = self.input_required(opened, client, &open, problem)?;
            Ok(Some(Waited::Ask(Box::new(again))))
        };
        let Some(filled) = response(call.responses, &open.id) else { return ask_again(None) };
        match self.decided(opened, client, &open.id, filled).await? {
            Outcome::Moved | Outcome::Closed => Ok(None),
            Outcome::Unfit(problem) => ask_again(Some(&problem)),
            Outcome::Left => Ok(Some(self.left_open(&thread, &open).await?)),
        }
    }

    async fn left_open(&self, thread: &Thread, open: &OpenNow) -> Result<Waited, Trouble> {
        self.hears(thread.dispatch_id());
        let mut reply = self.needs_input(thread, open).await?;
        reply.next = "Your user closed the form: the question stays open, and nothing runs. Do other work, or ask them how to go on.".to_owned();
        Ok(Waited::Reply(Box::new(reply)))
    }

    pub(crate) async fn needs_input(&self, thread: &Thread, open: &OpenNow) -> Result<WaitedReply, Trouble> {
        let result = thread.describe().await.map_err(|error| self.explain(error))?;
        let question = AskedReply::new(&open.id, &open.thread, &open.subagent, &open.question);
        let next = question.how_to_answer.clone();
        Ok(WaitedReply {
            status: WaitStatus::NeedsInput,
            question: Some(question),
            threads: vec![ThreadReply::new(&result)],
            next,
        })
    }

    async fn awaited_ids(
        &self,
        opened: &Opened,
        client: &Client,
        arguments: &WaitArguments,
    ) -> Result<Vec<ThreadId>, Trouble> {
        let Some(named) = &arguments.threads else { return self.threads_of(opened, client).await };
        let mut ids = Vec::new();
        for text in named {
            let id = self.thread(opened, client, text).await?.id().clone();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// Looks where a thread stands now.
    async fn look(&self, thread: &Thread) -> Result<(Standing, Option<OpenNow>), Trouble> {
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        let standing = match view.thread.state() {
            ThreadState::Running | ThreadState::Resuming => Standing::Working,
            ThreadState::Finished | ThreadState::Failed(_) | ThreadState::Cancelled => Standing::Rests,
            ThreadState::Waiting => match open_question(view.thread.questions()) {
                // Asked, and not yet recorded as open: in a moment it is.
                None => Standing::Working,
                Some(asked) => {
                    let subagent = thread.describe().await.map_err(|error| self.explain(error))?.subagent;
                    let open = OpenNow {
                        id: asked.id.clone(),
                        hash: asked.hash,
                        thread: view.thread_id.clone(),
                        subagent: subagent.to_string(),
                        question: asked.question.clone(),
                    };
                    return Ok((Standing::Asks(Box::new(open.clone())), Some(open)));
                }
            },
        };
        Ok((standing, None))
    }

    /// Returns the question of a thread that is open now.
    pub(crate) async fn open_now(&self, thread: &Thread) -> Result<Option<OpenNow>, Trouble> {
        self.look(thread).await.map(|(_, open)| open)
    }
}

/// A call that waits.
struct Waiting<'a> {
    desk: &'a Desk,
    opened: &'a Opened,
    client: &'a Client,
    call: &'a Call<'a>,
    ids: Vec<ThreadId>,
    /// Whether the threads were named: then also what was heard of before is told.
    by_name: bool,
    until: Until,
    time: Duration,
    progress: Progress,
}

impl Waiting<'_> {
    async fn run(&self, watch: &mut dyn Watch) -> Result<Waited, CallError> {
        let mut deadline = Instant::now() + self.time;
        let mut recovered_at = Instant::now();
        loop {
            let awaited = self.look_at_all().await?;
            if let Some(ended) = self.task(&awaited).await? {
                return Ok(ended);
            }
            if let Some((thread, open)) = first_question(&awaited) {
                match self.ask(thread, open).await? {
                    Some(ended) => return Ok(ended),
                    // A person had their time: the agent has its own again.
                    None => deadline = Instant::now() + self.time,
                }
                continue;
            }
            if let Some(status) = self.status(&awaited).await? {
                return self.reply(status, &awaited).await;
            }
            self.progress.tell(&awaited).await;
            tokio::select! {
                biased;
                () = self.call.context.ct.cancelled() => return self.reply(WaitStatus::Running, &awaited).await,
                heard = watch.next() => heard.map_err(|error| self.desk.ledger_trouble(error))?,
                () = tokio::time::sleep_until(deadline) => return self.reply(WaitStatus::Running, &awaited).await,
                () = tokio::time::sleep(TICK) => self.progress.beat().await,
            }
            if recovered_at.elapsed() >= TICK / 5 {
                // Whoever carried one of them may have died, which is what was heard.
                self.desk.recover(self.opened).await?;
                recovered_at = Instant::now();
            }
        }
    }

    async fn look_at_all(&self) -> Result<Vec<Awaited>, Trouble> {
        let mut awaited = Vec::new();
        for id in &self.ids {
            let thread = self.opened.agora.thread(id).await.map_err(|error| self.desk.explain(error))?;
            if self.by_name || !self.desk.has_heard(thread.dispatch_id()) {
                let (standing, _) = self.desk.look(&thread).await?;
                awaited.push(Awaited { thread, standing });
            }
        }
        Ok(awaited)
    }

    /// Returns how the call ends, if it does.
    async fn status(&self, awaited: &[Awaited]) -> Result<Option<WaitStatus>, Trouble> {
        let resting = awaited.iter().filter(|awaited| matches!(awaited.standing, Standing::Rests)).count();
        let ends = match self.until {
            Until::Any => resting > 0,
            Until::All => resting == awaited.len(),
        };
        Ok(match (awaited.is_empty(), ends) {
            (true, _) => Some(WaitStatus::Nothing),
            (false, true) => Some(WaitStatus::Ended),
            (false, false) => None,
        })
    }

    /// Gives the wait to the client, where it can wait by itself, can be asked, and waits for one thing that is its own.
    async fn task(&self, awaited: &[Awaited]) -> Result<Option<Waited>, Trouble> {
        let can = self.client.takes_tasks && self.client.asking != Asking::Plain;
        match awaited {
            [Awaited { thread, standing: Standing::Working }]
                if can && self.desk.owns(self.opened, self.client, thread.id()).await? =>
            {
                let task = self.desk.task(self.client, thread).await?;
                Ok(Some(Waited::Task(Box::new(CreateTaskResult::new(task.task)))))
            }
            _ => Ok(None),
        }
    }

    /// Asks as the client can. `None`: it was decided, and there is more to wait for.
    async fn ask(&self, thread: &Thread, open: &OpenNow) -> Result<Option<Waited>, CallError> {
        match open.asking(self.client) {
            Asking::InputRequired => {
                let required = self.desk.input_required(self.opened, self.client, open, None)?;
                Ok(Some(Waited::Ask(Box::new(required))))
            }
            Asking::Elicitation => self.elicit(thread, open).await,
            Asking::Plain => {
                self.desk.hears(thread.dispatch_id());
                Ok(Some(Waited::Reply(Box::new(self.desk.needs_input(thread, open).await?))))
            }
        }
    }

    /// Shows a form while the call goes on, until it is filled in, or the question is closed by somebody else.
    async fn elicit(&self, thread: &Thread, open: &OpenNow) -> Result<Option<Waited>, CallError> {
        let mut problem = None;
        for _ in 0..FORM_TRIES {
            let form = self.desk.form(self.client, open, problem.as_deref())?;
            let peer = &self.call.context.peer;
            let shown = peer.create_elicitation_with_timeout(form, Some(FORM_TIME));
            let result = tokio::select! {
                biased;
                () = self.call.context.ct.cancelled() => break,
                () = self.closed(thread) => return Ok(None),
                shown = shown => shown,
            };
            // A client that cannot show it after all, or a person who does not look: the model is told.
            let Ok(result) = result else { break };
            match self.desk.decided(self.opened, self.client, &open.id, filled(&result)).await? {
                Outcome::Moved | Outcome::Closed => return Ok(None),
                Outcome::Left => return Ok(Some(self.desk.left_open(thread, open).await?)),
                Outcome::Unfit(words) => problem = Some(words),
            }
        }
        self.desk.hears(thread.dispatch_id());
        Ok(Some(Waited::Reply(Box::new(self.desk.needs_input(thread, open).await?))))
    }

    /// Returns when the question is not open any more. Never, where that cannot be heard.
    async fn closed(&self, thread: &Thread) {
        let Ok(mut watch) = self.opened.engine.world().ledger.watch() else {
            return std::future::pending().await;
        };
        loop {
            if !matches!(self.desk.look(thread).await, Ok((Standing::Asks(_), _))) {
                return;
            }
            tokio::select! {
                heard = watch.next() => if heard.is_err() { return std::future::pending().await },
                () = tokio::time::sleep(TICK) => self.progress.beat().await,
            }
        }
    }

    async fn reply(&self, status: WaitStatus, awaited: &[Awaited]) -> Result<Waited, CallError> {
        let mut threads = Vec::new();
        for Awaited { thread, standing } in awaited {
            let result = thread.describe().await.map_err(|error| self.desk.explain(error))?;
            if matches!(standing, Standing::Rests) {
                self.desk.hears(&result.dispatch_id);
            }
            threads.push(ThreadReply::new(&result));
        }
        if status == WaitStatus::Nothing
            && let Some(reminder) = self.reminder().await?
        {
            return Ok(reminder);
        }
        let next = match status {
            WaitStatus::Ended
                if awaited.iter().any(|awaited| !matches!(awaited.standing, Standing::Rests)) =>
            {
                "Some have ended. Call agora_wait again for the others."
            }
            WaitStatus::Ended => "All have ended. Tell your user what came of it, with the git refs.",
            WaitStatus::Running => "Nothing has ended yet. Call agora_wait again.",
            WaitStatus::Nothing => {
                "You have no threads that you have not heard the end of. If you started some before this server was started, name them."
            }
            WaitStatus::NeedsInput => "",
        };
        Ok(Waited::Reply(Box::new(WaitedReply { status, question: None, threads, next: next.to_owned() })))
    }

    /// Returns a question that the client heard of before and that is still open, when it has nothing else to wait for.
    async fn reminder(&self) -> Result<Option<Waited>, Trouble> {
        for id in &self.ids {
            let thread = self.opened.agora.thread(id).await.map_err(|error| self.desk.explain(error))?;
            if let Some(open) = self.desk.open_now(&thread).await? {
                return Ok(Some(Waited::Reply(Box::new(self.desk.needs_input(&thread, &open).await?))));
            }
        }
        Ok(None)
    }
}

fn first_question(awaited: &[Awaited]) -> Option<(&Thread, &OpenNow)> {
    awaited.iter().find_map(|awaited| match &awaited.standing {
        Standing::Asks(open) => Some((&awaited.thread, &**open)),
        Standing::Working | Standing::Rests => None,
    })
}

/// Tells a client that wants to know how far it is.
struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    told: std::sync::Mutex<(u32, String)>,
}

impl Progress {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        Self {
            peer: context.peer.clone(),
            token: context.meta.get_progress_token(),
            told: std::sync::Mutex::default(),
        }
    }

    /// Says where the threads stand, if that is new.
    async fn tell(&self, awaited: &[Awaited]) {
        let ended = awaited.iter().filter(|awaited| matches!(awaited.standing, Standing::Rests)).count();
        let mut words = format!("{ended} of {} ended", awaited.len());
        if let [only] = awaited {
            words = format!("{} is under way", only.thread.id());
        }
        let is_new = self.told.lock().is_ok_and(|told| told.1 != words);
        if is_new {
            self.say(words).await;
        }
    }

    /// Says again what was said, so that the client knows that the call is alive.
    async fn beat(&self) {
        let words = self.told.lock().map(|told| told.1.clone()).unwrap_or_default();
        self.say(words).await;
    }

    async fn say(&self, words: String) {
        let Some(token) = self.token.clone() else { return };
        let step = match self.told.lock() {
            Ok(mut told) => {
                *told = (told.0 + 1, words.clone());
                told.0
            }
            Err(_) => return,
        };
        let param = ProgressNotificationParam::new(token, f64::from(step)).with_message(words);
        // Who does not listen any more hears the end of the call neither.
        let _ = self.peer.notify_progress(param).await;
    }
}

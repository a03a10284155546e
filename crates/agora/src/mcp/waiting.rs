//! `agora_wait`: returns when something has ended, and becomes the question when somebody is asked.

use std::time::Duration;

use agora_core::ThreadId;
use agora_core::provider::ledger::Watch;
use agora_engine::Thread;
use rmcp::RoleServer;
use rmcp::model::{CreateTaskResult, ErrorData, InputRequiredResult, InputResponses};
use rmcp::service::RequestContext;
use tokio::time::Instant;

use super::Trouble;
use super::arguments::{LONGEST_WAIT_SECONDS, Until, WaitArguments};
use super::asking::{OpenNow, Outcome, response};
use super::bounds::page;
use super::client::{Asking, Client};
use super::desk::{Desk, Opened};
use super::form::filled;
use super::heard::News;
use super::progress::Progress;
use super::reply::{WaitStatus, WaitedReply};
use super::shown::Shown;
use super::standing::Standing;
use super::telling::what_next;

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

/// A thread that is waited for.
struct Awaited {
    thread: Thread,
    standing: Standing,
    /// Whether the client was told of it before, and asks by name.
    is_heard: bool,
}

impl Awaited {
    fn rests(&self) -> bool {
        matches!(self.standing, Standing::Rests)
    }

    /// Tells whether it has ended, and the client was not told.
    fn is_news(&self) -> bool {
        self.rests() && !self.is_heard
    }
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
        let is_asked = |open: &OpenNow| open.id == asked.question && open.hash == asked.hash;
        let Some(open) = self.open_now(client, &thread).await?.filter(is_asked) else {
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
            Outcome::Left => {
                let reply = self.left_open(client, &thread, &open).await?;
                Ok(Some(Waited::Reply(Box::new(reply))))
            }
        }
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
            if let Some(status) = self.status(&awaited) {
                return self.reply(status, &awaited).await;
            }
            self.progress.tell(how_far(&awaited)).await;
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

    /// Looks at the threads, up to the first that asks something.
    async fn look_at_all(&self) -> Result<Vec<Awaited>, Trouble> {
        let mut awaited = Vec::new();
        for id in &self.ids {
            let thread = self.opened.agora.thread(id).await.map_err(|error| self.desk.explain(error))?;
            let standing = self.desk.look(self.client, &thread).await?;
            let news = news(&thread, &standing);
            let is_heard = news.is_some_and(|news| self.desk.heard.has(&self.client.owner, &news));
            if self.by_name || !is_heard {
                let asks = matches!(standing, Standing::Asks(_));
                awaited.push(Awaited { thread, standing, is_heard });
                // The call becomes this question, whatever became of those after it.
                if asks {
                    break;
                }
            }
        }
        Ok(awaited)
    }

    /// Notes what the client was told. A client that has taken back its call was told nothing.
    fn was_told(&self, news: Option<News>) {
        if let Some(news) = news
            && !self.call.context.ct.is_cancelled()
        {
            self.desk.heard.add(&self.client.owner, news);
        }
    }

    /// Returns how the call ends, if it does. Of what runs and what has been told, only the first can bring something new: while there is
    /// some of it, an end that was told does not end the call again.
    fn status(&self, awaited: &[Awaited]) -> Option<WaitStatus> {
        let all_rest = awaited.iter().all(Awaited::rests);
        let ends = match self.until {
            Until::Any => all_rest || awaited.iter().any(Awaited::is_news),
            Until::All => all_rest,
        };
        match (awaited.is_empty(), ends) {
            (true, _) => Some(WaitStatus::Nothing),
            (false, true) => Some(WaitStatus::Ended),
            (false, false) => None,
        }
    }

    /// Gives the wait to the client, where it can wait by itself, can be asked, and waits for one thing that is its own.
    async fn task(&self, awaited: &[Awaited]) -> Result<Option<Waited>, Trouble> {
        let can = self.client.takes_tasks && self.client.asking != Asking::Plain;
        match awaited {
            [Awaited { thread, standing: Standing::Working, .. }]
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
            Asking::Plain => self.ask_plainly(thread, open).await.map(Some),
        }
    }

    async fn ask_plainly(&self, thread: &Thread, open: &OpenNow) -> Result<Waited, CallError> {
        let reply = self.desk.needs_input(thread, &open.reply()).await?;
        self.was_told(Some(News::Asked(open.id.clone())));
        Ok(Waited::Reply(Box::new(reply)))
    }

    /// Shows a form while the call goes on, until it is filled in, or the question is closed by somebody else.
    async fn elicit(&self, thread: &Thread, open: &OpenNow) -> Result<Option<Waited>, CallError> {
        let mut problem = None;
        for _ in 0..FORM_TRIES {
            let form = self.desk.form(self.client, open, problem.as_deref())?;
            // A client that cannot show it after all: the model is told.
            let Ok(mut shown) = Shown::new(&self.call.context.peer, form).await else { break };
            let result = tokio::select! {
                biased;
                () = self.call.context.ct.cancelled() => {
                    shown.take_back("the call was cancelled").await;
                    break;
                }
                () = self.closed(thread, open) => {
                    shown.take_back("the question is not open any more").await;
                    return Ok(None);
                }
                result = shown.result() => result,
            };
            // Nor does a person who does not look answer.
            let Ok(result) = result else { break };
            match self.desk.decided(self.opened, self.client, &open.id, filled(&result)).await? {
                Outcome::Moved | Outcome::Closed => return Ok(None),
                Outcome::Left => {
                    let reply = self.desk.left_open(self.client, thread, open).await?;
                    return Ok(Some(Waited::Reply(Box::new(reply))));
                }
                Outcome::Unfit(words) => problem = Some(words),
            }
        }
        self.ask_plainly(thread, open).await.map(Some)
    }

    /// Returns when the question is not open any more. Never, where that cannot be heard.
    async fn closed(&self, thread: &Thread, open: &OpenNow) {
        let Ok(mut watch) = self.opened.engine.world().ledger.watch() else {
            return std::future::pending().await;
        };
        loop {
            if !matches!(self.desk.look(self.client, thread).await, Ok(Standing::Asks(now)) if now.id == open.id)
            {
                return;
            }
            tokio::select! {
                heard = watch.next() => if heard.is_err() { return std::future::pending().await },
                () = tokio::time::sleep(TICK) => self.progress.beat().await,
            }
        }
    }

    async fn reply(&self, status: WaitStatus, awaited: &[Awaited]) -> Result<Waited, CallError> {
        if status == WaitStatus::Nothing
            && let Some(reminder) = self.reminder().await?
        {
            return Ok(reminder);
        }
        // What is new comes first: where not all fits, the next call has the rest.
        let mut ordered: Vec<&Awaited> = awaited.iter().collect();
        ordered.sort_by_key(|awaited| (!awaited.rests(), awaited.is_heard));
        let mut replies = Vec::new();
        for awaited in &ordered {
            replies.push(self.desk.thread_reply(&awaited.thread).await?);
        }
        let (threads, left) = page(&replies);
        let (told, untold) = ordered.split_at(threads.len());
        for awaited in told.iter().filter(|awaited| awaited.rests()) {
            self.was_told(news(&awaited.thread, &awaited.standing));
        }
        let untold = untold.iter().filter(|awaited| awaited.is_news()).count();
        let others = !awaited.iter().all(Awaited::rests);
        let mut next = what_next(status, others, untold);
        if !self.by_name && status == WaitStatus::Ended && self.still_asked().await?.is_some() {
            next.push_str(
                " A question that you know of still waits for your user: agora_questions_list has it.",
            );
        }
        let omitted_threads = Some(left).filter(|left| *left > 0);
        Ok(Waited::Reply(Box::new(WaitedReply { status, question: None, threads, omitted_threads, next })))
    }

    /// Returns a question that the client heard of before and that is still open, when it has nothing else to wait for.
    async fn reminder(&self) -> Result<Option<Waited>, Trouble> {
        let Some((thread, open)) = self.still_asked().await? else { return Ok(None) };
        let reply = self.desk.needs_input(&thread, &open.reply()).await?;
        Ok(Some(Waited::Reply(Box::new(reply))))
    }

    /// Returns a thread whose question is still open, whether or not the client has heard of it.
    async fn still_asked(&self) -> Result<Option<(Thread, OpenNow)>, Trouble> {
        for id in &self.ids {
            let thread = self.opened.agora.thread(id).await.map_err(|error| self.desk.explain(error))?;
            if let Some(open) = self.desk.open_now(self.client, &thread).await? {
                return Ok(Some((thread, open)));
            }
        }
        Ok(None)
    }
}

/// Returns what there is to tell of a thread, once.
fn news(thread: &Thread, standing: &Standing) -> Option<News> {
    match standing {
        Standing::Working => None,
        Standing::Asks(open) => Some(News::Asked(open.id.clone())),
        Standing::Rests => Some(News::Ended(thread.dispatch_id().clone())),
    }
}

/// Says how far the threads are.
fn how_far(awaited: &[Awaited]) -> String {
    let ended = awaited.iter().filter(|awaited| awaited.rests()).count();
    match awaited {
        [only] => format!("{} is under way", only.thread.id()),
        _ => format!("{ended} of {} ended", awaited.len()),
    }
}

fn first_question(awaited: &[Awaited]) -> Option<(&Thread, &OpenNow)> {
    awaited.iter().find_map(|awaited| match &awaited.standing {
        Standing::Asks(open) => Some((&awaited.thread, &**open)),
        Standing::Working | Standing::Rests => None,
    })
}

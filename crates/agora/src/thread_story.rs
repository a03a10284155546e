//! A thread's story as a person reads it: what happened when, who said what, and what it all came to.

use agora_core::Timestamp;
use agora_core::answer::Answerer;
use agora_core::entry::{Entry, Happening};
use agora_core::event::Event;
use agora_core::reason::Failure;
use agora_core::record::{AtExpiry, Record, RouteOutcome};
use agora_core::route::{Party, Step};
use agora_core::{DispatchId, QuestionId};
use agora_engine::{DispatchResult, Name, QuestionStory, RoutedStep, ThreadStory, Totals};

use crate::asking;
use crate::cli::{counted, span};
use crate::dispatch_story::change;
use crate::plain::{plain, wrapped};

/// The left column: a moment, and what parts it from the rest.
const LEFT: usize = 22;
/// A wait for the start that is worth a word.
const NOTABLE_MS: u64 = 1000;
/// How much of a task or a message is shown.
const TASK_LINES: usize = 3;

/// Writes a story within so many columns.
pub(crate) fn text(story: &ThreadStory, columns: usize) -> String {
    let mut page = Page { columns, lines: Vec::new() };
    page.head(story);
    let mut teller = Teller { story, page, answered: None };
    for entry in &story.entries {
        teller.tell(entry);
    }
    let mut page = teller.page;
    page.foot(story);
    page.lines.join("\n") + "\n"
}

/// The lines so far.
struct Page {
    columns: usize,
    lines: Vec<String>,
}

impl Page {
    fn head(&mut self, story: &ThreadStory) {
        let mut parts = vec![format!("thread {}", story.thread_id), story.state.to_owned()];
        parts.extend(story.subagent.iter().map(Name::to_string));
        parts.extend(story.labels.iter().map(Name::to_string));
        self.lines.extend(wrapped(&parts.join(" · "), 0, self.columns));
        for line in first_lines(story.task.as_deref().unwrap_or_default()) {
            self.lines.extend(wrapped(&line, 2, self.columns));
        }
        self.lines.push(String::new());
    }

    /// Writes what happened at a moment, and what belongs to it below.
    fn at(&mut self, at: Timestamp, what: &str) {
        let mut lines = wrapped(what, LEFT, self.columns);
        if let Some(first) = lines.first_mut() {
            *first = format!("{:<LEFT$}{}", moment(at), first.trim_start());
        }
        self.lines.extend(lines);
    }

    fn below(&mut self, what: &str) {
        self.lines.extend(wrapped(what, LEFT, self.columns));
    }

    /// As [`Page::below`], further to the right.
    fn within(&mut self, what: &str) {
        self.lines.extend(wrapped(what, LEFT + 2, self.columns));
    }

    fn foot(&mut self, story: &ThreadStory) {
        self.lines.push(String::new());
        let Totals { dispatches, taken_over, taken_over_ms, worked_ms, turns, .. } = story.totals;
        let of_agents = count(dispatches - taken_over, "dispatch", "dispatches");
        let mut worked = vec![format!("agents worked {} in {of_agents}", span(worked_ms))];
        worked.extend(
            (taken_over > 0).then(|| format!("people {} in {taken_over} taken over", span(taken_over_ms))),
        );
        worked.extend((turns > 0).then(|| counted(as_usize(turns), "turn")));
        worked.extend((story.totals.tokens > 0).then(|| format!("{} tokens", story.totals.tokens)));
        worked.push(cost(&story.totals));
        self.lines.extend(wrapped(&worked.join(", "), 0, self.columns));
        if !story.questions.is_empty() {
            self.lines.extend(wrapped(&waited(story), 0, self.columns));
        }
    }
}

/// Says whom the questions waited for, and what ran meanwhile.
fn waited(story: &ThreadStory) -> String {
    let of = |whom: Whom| {
        let all: Vec<u64> =
            story.questions.iter().filter(|one| Whom::of(one) == whom).map(|one| one.waited_ms).collect();
        let time = span(all.iter().copied().fold(0, u64::saturating_add));
        (!all.is_empty()).then(|| match whom {
            Whom::People => format!("people thought {time} over {}", counted(all.len(), "question")),
            Whom::Programs => format!("programs answered {} after {time}", counted(all.len(), "question")),
            Whom::Nobody => format!("{} waited {time} without an answer", counted(all.len(), "question")),
        })
    };
    let whom: Vec<String> = [Whom::People, Whom::Programs, Whom::Nobody].into_iter().filter_map(of).collect();
    let ran = |routed: &RoutedStep| routed.outcome != RouteOutcome::NoChannel;
    let commands = story.questions.iter().any(|one| one.route.iter().any(ran));
    // Only what the ledger shows: that no dispatch of the thread was live between a question and its end. What a command of its route
    // started and spent is not in it.
    let meanwhile = match story.totals.live_while_waiting {
        0 if commands => {
            "while it waited nothing of it ran but commands of its route, whose cost nobody knows".to_owned()
        }
        0 => "while it waited: 0 processes, $0".to_owned(),
        live => format!("while it waited, {} was live", count(live, "dispatch", "dispatches")),
    };
    format!("{}; {meanwhile}", whom.join(", "))
}

/// Who ended the wait of a question.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    People,
    /// Commands of its route, and agents that may answer themselves.
    Programs,
    /// It is open, was cancelled or has expired.
    Nobody,
}

impl Whom {
    fn of(question: &QuestionStory) -> Self {
        let by = question.answer.as_ref().map(|answer| &answer.by).or(question.declined_by.as_ref());
        match by {
            Some(by) if by.principal.starts_with("user:") => Self::People,
            Some(_) => Self::Programs,
            None => Self::Nobody,
        }
    }
}

/// Tells one entry after the other.
struct Teller<'a> {
    story: &'a ThreadStory,
    page: Page,
    /// What made the next dispatch go on.
    answered: Option<QuestionId>,
}

impl Teller<'_> {
    fn tell(&mut self, entry: &Entry) {
        match &entry.what {
            Happening::Event(event) => self.event(entry, event),
            Happening::Record(record) => self.record(entry, record),
        }
    }

    fn result(&self, id: &DispatchId) -> Option<&DispatchResult> {
        self.story.dispatches.iter().find(|result| result.dispatch_id == *id)
    }

    fn question(&self, id: &QuestionId) -> Option<&QuestionStory> {
        self.story.questions.iter().find(|story| story.question_id == *id)
    }

    fn event(&mut self, entry: &Entry, event: &Event) {
        match event {
            Event::Accepted { dispatch_id, .. } => self.accepted(entry, dispatch_id),
            Event::Started { dispatch_id } => {
                let waited =
                    self.result(dispatch_id).map_or(0, |result| between(result.accepted_at, entry.at));
                if waited >= NOTABLE_MS {
                    // For room, or because nobody carried it: the ledger does not say which.
                    self.page.at(entry.at, &format!("started, {} after it was accepted", span(waited)));
                }
            }
            Event::Finished { dispatch_id, .. } => {
                self.page.at(entry.at, "finished");
                self.did(dispatch_id);
                self.said(dispatch_id);
            }
            Event::NeedsInput { dispatch_id, question_id, question, .. } => {
                self.page.at(entry.at, &format!("asked, and stopped ({question_id})"));
                self.did(dispatch_id);
                let headline = asking::context_headline(question);
                for line in asking::items(question) {
                    self.page.within(&line);
                }
                if let Some(headline) = headline {
                    self.page.within(&format!("because: {headline}"));
                }
            }
            Event::Failed { dispatch_id, failure, .. } => {
                self.page.at(entry.at, &format!("failed ({}, {})", failure.reason, failure.code));
                self.did(dispatch_id);
                self.why(failure);
            }
            Event::Cancelled { dispatch_id, .. } => {
                self.page.at(entry.at, "cancelled");
                self.did(dispatch_id);
            }
        }
    }

    fn accepted(&mut self, entry: &Entry, id: &DispatchId) {
        let first = self.story.dispatches.first().is_some_and(|result| result.dispatch_id == *id);
        if first {
            let by = self.story.owner.as_ref().map(|owner| format!(" by {}", plain(&owner.to_string())));
            let target = self.result(id).map(|result| format!(" to {}", result.target)).unwrap_or_default();
            self.page.at(entry.at, &format!("dispatched{}{target} ({id})", by.unwrap_or_default()));
            return;
        }
        // With the same write as what made it go on, so that its moment is told already.
        let person = self.result(id).and_then(|result| result.person.as_deref());
        self.page.below(&match person {
            Some(person) => format!("{} took it over ({id})", plain(person)),
            None => format!("it went on as {id}"),
        });
        let continued = self.story.continued.iter().find(|continued| continued.dispatch_id == *id);
        for line in continued
            .and_then(|continued| continued.message.as_deref())
            .iter()
            .flat_map(|text| first_lines(text))
        {
            self.page.within(&line);
        }
    }

    /// Says what a dispatch did: how long, how much, and what it changed.
    fn did(&mut self, id: &DispatchId) {
        let since = if self.answered.take().is_some() { " since the answer" } else { "" };
        let Some(result) = self.result(id) else { return };
        let mut parts = match result.started_at {
            Some(_) => vec![format!("worked {}", span(result.duration_ms))],
            None => vec!["never started".to_owned()],
        };
        if let Some(usage) = &result.usage {
            parts.extend((usage.turns > 0).then(|| counted(as_usize(usage.turns), "turn")));
            parts.extend(usage.cost_usd.map(|usd| format!("${usd:.4}")));
        }
        let patch = result.patch_since_pause.as_ref().or(result.patch.as_ref());
        parts.push(match patch.filter(|patch| patch.files > 0) {
            Some(patch) => format!("{}{since}", change(patch)),
            None => format!("no file changed{since}"),
        });
        parts.extend(
            result
                .verify
                .as_ref()
                .map(|verify| if verify.passed { "verified".to_owned() } else { "verify failed".to_owned() }),
        );
        self.page.below(&parts.join(", "));
    }

    /// Quotes what an agent said at its end.
    fn said(&mut self, id: &DispatchId) {
        let text = self.result(id).map(|result| result.output.text.clone()).unwrap_or_default();
        for line in first_lines(&text) {
            self.page.within(&line);
        }
    }

    fn why(&mut self, failure: &Failure) {
        for line in first_lines(&failure.detail) {
            self.page.within(&line);
        }
    }

    fn record(&mut self, entry: &Entry, record: &Record) {
        let page = &mut self.page;
        match record {
            // It is told with the event that carries it.
            Record::QuestionOpened { .. } | Record::ThreadEnded { .. } => {}
            Record::QuestionRouted { question_id, step, outcome, detail, .. } => {
                let how = match outcome {
                    RouteOutcome::Answered => "answered",
                    RouteOutcome::NoResponse => "had no answer",
                    RouteOutcome::NoChannel => "could not be reached",
                };
                let whom = self.step(question_id, *step);
                self.page.at(entry.at, &format!("asked {whom}, which {how}"));
                for line in detail.iter().flat_map(|detail| first_lines(detail)) {
                    self.page.within(&line);
                }
            }
            Record::QuestionReminded { question_id, .. } => {
                let whom = self.question(question_id).map(|story| names(&story.terms.shown_to(u32::MAX)));
                let whom = whom.filter(|whom| !whom.is_empty()).map(|whom| format!(" ({whom})"));
                self.page.at(entry.at, &format!("reminded{}", whom.unwrap_or_default()));
            }
            Record::QuestionEscalated { question_id, step, .. } => {
                let whom = self.step(question_id, *step);
                self.page.at(entry.at, &format!("nobody answered, so {whom} is asked, too"));
            }
            Record::QuestionAnswered { question_id, answers, by, stale, .. } => {
                let after = self.after(question_id);
                self.page.at(entry.at, &format!("answered by {}{after}", who(by)));
                for line in asking::reply_lines(answers) {
                    self.page.within(&line);
                }
                for difference in stale {
                    self.page.below(&format!("changed by then: {}", plain(&difference.text())));
                }
                self.answered = Some(question_id.clone());
            }
            Record::QuestionDeclined { question_id, by, .. } => {
                let after = self.after(question_id);
                self.page.at(entry.at, &format!("declined by {}{after}", who(by)));
            }
            Record::QuestionExpired { question_id, at_expiry, .. } => {
                let after = self.after(question_id);
                let told = match at_expiry {
                    AtExpiry::Fail => format!("expired{after}: nobody answered in time"),
                    AtExpiry::UseDefault(replies) => format!(
                        "expired{after}: nobody answered in time, so the asker's default holds: {}",
                        asking::replies(replies)
                    ),
                    AtExpiry::Stale(_) => format!(
                        "ended{after}: what it rested on had changed, and its route says that it fails then"
                    ),
                };
                self.page.at(entry.at, &told);
                self.answered = Some(question_id.clone());
            }
            Record::QuestionCancelled { question_id, by } => {
                let after = self.after(question_id);
                self.page.at(entry.at, &format!("the question was cancelled{}{after}", by_whom(by.as_ref())));
            }
            Record::AnswerRefused { by, why, .. } => {
                page.at(entry.at, &format!("an answer of {} did not count: {}", who(by), plain(why)));
            }
            Record::ThreadContinued { by: None } => page.at(entry.at, "continued by its owner"),
            Record::ThreadContinued { by } => {
                page.at(entry.at, &format!("continued{}", by_whom(by.as_ref())));
            }
            Record::ThreadCancelled { by } => {
                page.at(entry.at, &format!("the thread was cancelled{}", by_whom(by.as_ref())));
            }
        }
    }

    /// Names a step of a question's route.
    fn step(&self, id: &QuestionId, step: u32) -> String {
        let place = usize::try_from(step).unwrap_or(usize::MAX);
        match self.question(id).and_then(|story| story.terms.steps.get(place)) {
            Some(Step::Command(command)) => format!("`{}`", plain(command.name())),
            Some(Step::Inbox(party)) => plain(&party.to_string()),
            None => format!("step {} of its route", u64::from(step) + 1),
        }
    }

    fn after(&self, id: &QuestionId) -> String {
        self.question(id).map(|story| format!(", after {}", span(story.waited_ms))).unwrap_or_default()
    }
}

/// Names who answered, and by which door.
fn who(by: &Answerer) -> String {
    let relayed = by.relayed_by.as_ref().map(|agent| format!(", relayed by {}", plain(agent)));
    format!("{} through {}{}", plain(&by.principal), plain(&by.door), relayed.unwrap_or_default())
}

fn by_whom(by: Option<&Answerer>) -> String {
    by.map(|by| format!(" by {}", who(by))).unwrap_or_default()
}

fn names(parties: &[Party]) -> String {
    parties.iter().map(|party| plain(&party.to_string())).collect::<Vec<_>>().join(", ")
}

fn cost(totals: &Totals) -> String {
    match (totals.cost_usd, totals.without_cost) {
        (None, _) => "cost not reported".to_owned(),
        (Some(usd), 0) => format!("${usd:.4}"),
        (Some(usd), silent) => {
            format!("${usd:.4} (without {}, which did not say)", count(silent, "dispatch", "dispatches"))
        }
    }
}

fn count(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

fn as_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millis().saturating_sub(from.as_millis())).unwrap_or(0)
}

/// Says a moment to the second, in UTC: `2026-11-15 19:00:00Z`.
fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    let seconds = text.split('.').next().unwrap_or(&text);
    format!("{}Z", seconds.replacen('T', " ", 1))
}

/// Takes the first lines of somebody's words, and says when there are more.
fn first_lines(text: &str) -> Vec<String> {
    let text = plain(text.trim());
    let mut lines: Vec<String> = text.lines().take(TASK_LINES).map(str::to_owned).collect();
    let more = text.lines().count().saturating_sub(TASK_LINES);
    lines.extend((more > 0).then(|| format!("… and {}", counted(more, "more line"))));
    lines
}

//! The rest of what does not fit into an answer: threads as resources, page by page, with a word when they change.

use std::str::Utf8Chunk;

use agora_core::provider::ledger::{Filter, Watch};
use agora_core::state::ThreadState;
use agora_core::{DispatchId, ThreadId};
use agora_engine::Thread;
use rmcp::model::{ErrorData, ReadResourceResult, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};

use super::Trouble;
use super::bounds::{MOST_BYTES, clipped, named, on_wire, wire_bytes};
use super::client::Client;
use super::desk::{Desk, Opened};
use super::standing::{question_word, state_word};

/// What one page of a resource takes of the wire: with its frame, no more than a model may be given.
pub(super) const PAGE: usize = MOST_BYTES - 2 * 1024;
const ENTRIES: usize = 100;
/// An address is said again with what it names. The longest of ours is shorter.
const ADDRESS_BYTES: usize = 256;

/// What of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Thread,
    Events,
    Log,
    Patch,
}

/// A resource's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    thread: ThreadId,
    part: Part,
    /// From where on: a byte, or for events an entry.
    offset: u64,
}

pub(crate) fn thread_uri(thread: &ThreadId) -> String {
    format!("agora://threads/{thread}")
}

impl Address {
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix("agora://threads/").filter(|_| uri.len() <= ADDRESS_BYTES)?;
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
        let (thread, part) = path.split_once('/').map_or((path, None), |(thread, part)| (thread, Some(part)));
        let part = match part {
            None => Part::Thread,
            Some("events") => Part::Events,
            Some("log") => Part::Log,
            Some("patch") => Part::Patch,
            Some(_) => return None,
        };
        let offset = match query {
            None => 0,
            Some(query) => query.strip_prefix("offset=")?.parse().ok()?,
        };
        Some(Self { thread: thread.parse().ok()?, part, offset })
    }

    fn next(&self, offset: u64) -> String {
        let part = match self.part {
            Part::Thread => "",
            Part::Events => "/events",
            Part::Log => "/log",
            Part::Patch => "/patch",
        };
        format!("{}{part}?offset={offset}", thread_uri(&self.thread))
    }

    fn mime_type(&self) -> &'static str {
        match self.part {
            Part::Thread => "application/json",
            Part::Events => "application/jsonl",
            Part::Log => "text/plain",
            Part::Patch => "text/x-diff",
        }
    }
}

/// Says which resources every thread has.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = |part: &str, name: &str, what: &str, kind: &str| {
        ResourceTemplate::new(format!("agora://threads/{{threadId}}{part}"), name)
            .with_description(what)
            .with_mime_type(kind)
    };
    vec![
        template(
            "{?offset}",
            "thread",
            "A thread: its state, its dispatches and its questions.",
            "application/json",
        ),
        template(
            "/events{?offset}",
            "events",
            "What happened to a thread, one JSON object a line. A line that is longer than a page is cut, and then no JSON: it says how many bytes are missing.",
            "application/jsonl",
        ),
        template(
            "/log{?offset}",
            "log",
            "What the agent of the thread's last dispatch printed.",
            "text/plain",
        ),
        template(
            "/patch{?offset}",
            "patch",
            "What the thread changed, as `git apply` takes it.",
            "text/x-diff",
        ),
    ]
}

impl Desk {
    pub(crate) async fn read(&self, client: &Client, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let (opened, address, thread) = self.addressed(client, uri).await?;
        let (text, next) = self.page(opened, &address, &thread).await.map_err(internal)?;
        let mut contents = vec![ResourceContents::text(text, uri).with_mime_type(address.mime_type())];
        if let Some(next) = next {
            let words = format!("There is more: read `{}`.", address.next(next));
            contents.push(ResourceContents::text(words, address.next(next)).with_mime_type("text/plain"));
        }
        Ok(ReadResourceResult::new(contents))
    }

    /// Finds the thread that a resource is of. One that the client does not reach is not there, and nothing is said about what is near it.
    async fn addressed(&self, client: &Client, uri: &str) -> Result<(&Opened, Address, Thread), ErrorData> {
        let unknown = || no_such_resource(uri);
        let address = Address::parse(uri).ok_or_else(unknown)?;
        let opened = self.opened().await.map_err(internal)?;
        let thread = opened.agora.thread(&address.thread).await.map_err(|_| unknown())?;
        let is_reached = self.reaches(opened, client, thread.id()).await.map_err(internal)?;
        if is_reached { Ok((opened, address, thread)) } else { Err(unknown()) }
    }

    /// Reads a page, and says where the next one begins.
    async fn page(
        &self,
        opened: &Opened,
        address: &Address,
        thread: &Thread,
    ) -> Result<(String, Option<u64>), Trouble> {
        match address.part {
            Part::Thread => {
                let whole = self.document(opened, thread).await?.to_string();
                let from = usize::try_from(address.offset).unwrap_or(usize::MAX).min(whole.len());
                Ok(cut(&whole.as_bytes()[from..], address.offset))
            }
            Part::Events => self.events(opened, address).await,
            Part::Log => self.file(opened, thread.dispatch_id(), "agent.stdout.log", address.offset).await,
            Part::Patch => self.file(opened, thread.dispatch_id(), "patch.diff", address.offset).await,
        }
    }

    async fn document(&self, opened: &Opened, thread: &Thread) -> Result<Value, Trouble> {
        let view = thread.view().await.map_err(|error| self.explain(error))?;
        let filter = Filter { thread: Some(thread.id().clone()), most: 100, ..Filter::default() };
        let rows = opened.agora.dispatches(&filter).await.map_err(|error| self.explain(error))?;
        let dispatches = rows.iter().rev().map(|row| {
            json!({"dispatchId": row.dispatch_id, "subagent": row.subagent, "state": row.state.as_str(), "acceptedAt": row.accepted_at, "endedAt": row.ended_at})
        });
        let described = thread.describe().await.map_err(|error| self.explain(error))?;
        let state = state_word(view.thread.state(), described.state);
        let failure = match view.thread.state() {
            ThreadState::Failed(failure) => Some(failure),
            _ => None,
        };
        let mut last = serde_json::to_value(&described).unwrap_or_default();
        if let Value::Object(fields) = &mut last {
            fields.remove("stdout");
            fields.remove("stderr");
        }
        let questions = view.thread.questions().iter();
        let questions = questions.map(|asked| {
            json!({"questionId": asked.id, "state": question_word(asked.state), "question": asked.question})
        });
        Ok(json!({
            "threadId": view.thread_id,
            "state": state,
            "failure": failure,
            "beganAt": view.began_at,
            "movedAt": view.moved_at,
            "dispatches": dispatches.collect::<Vec<_>>(),
            "questions": questions.collect::<Vec<_>>(),
            "last": last,
        }))
    }

    async fn events(&self, opened: &Opened, address: &Address) -> Result<(String, Option<u64>), Trouble> {
        let ledger = &opened.engine.world().ledger;
        let entries = ledger.read(&address.thread, address.offset, ENTRIES).await;
        let entries = entries.map_err(|error| self.ledger_trouble(error))?;
        let (mut text, mut seen, mut left) = (String::new(), address.offset, PAGE);
        for entry in &entries {
            let line = String::from_utf8_lossy(&entry.encode().unwrap_or_default()).into_owned() + "\n";
            // One that is longer than a page is a page of its own, and cut: what it holds is the thread's, and is read there.
            let whole = thread_uri(&address.thread);
            let line =
                if on_wire(&line) > PAGE { clipped(&line, PAGE - 256, Some(&whole)) + "\n" } else { line };
            let Some(rest) = left.checked_sub(on_wire(&line)) else { break };
            (left, seen) = (rest, entry.seq);
            text.push_str(&line);
        }
        let more = entries.last().is_some_and(|last| last.seq > seen) || entries.len() == ENTRIES;
        Ok((text, more.then_some(seen)))
    }

    async fn file(
        &self,
        opened: &Opened,
        dispatch: &DispatchId,
        file: &str,
        offset: u64,
    ) -> Result<(String, Option<u64>), Trouble> {
        // What begins in a page ends in it: a character has four bytes at most.
        let read = opened.agora.read_left(dispatch, file, offset, PAGE as u64 + 4).await;
        let bytes = read.map_err(|error| self.explain(error))?.unwrap_or_default();
        Ok(cut(&bytes, offset))
    }
}

/// What happens to a thread, for who only wants to know that something did.
pub(crate) struct Changes {
    engine: agora_engine::Engine,
    thread: ThreadId,
    watch: Box<dyn Watch>,
    seen: u64,
}

impl Changes {
    /// Returns when something was recorded of the thread. False: that cannot be heard any more.
    pub(crate) async fn next(&mut self) -> bool {
        loop {
            if self.watch.next().await.is_err() {
                return false;
            }
            match self.engine.world().ledger.thread(&self.thread).await {
                Ok(Some(view)) if view.seen > self.seen => {
                    self.seen = view.seen;
                    return true;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return false,
            }
        }
    }
}

impl Desk {
    /// Begins to listen to what a resource is of.
    pub(crate) async fn changes(&self, client: &Client, uri: &str) -> Result<Changes, ErrorData> {
        let (opened, address, thread) = self.addressed(client, uri).await?;
        let watch = opened.engine.world().ledger.watch();
        let watch = watch.map_err(|error| internal(self.ledger_trouble(error)))?;
        let seen = thread.view().await.map_err(|error| internal(self.explain(error)))?.seen;
        Ok(Changes { engine: opened.engine.clone(), thread: address.thread, watch, seen })
    }
}

/// Cuts a page from the beginning of bytes that stand at an offset, between two characters, and says where the next one begins. What it
/// takes of the wire counts: a byte that is no text has three there, and a control character six.
fn cut(bytes: &[u8], offset: u64) -> (String, Option<u64>) {
    let (mut text, mut taken, mut left) = (String::new(), 0, PAGE);
    let marked = |chunk: &Utf8Chunk<'_>| (!chunk.invalid().is_empty()).then_some(chunk.invalid().len());
    let characters = bytes.utf8_chunks().flat_map(|chunk| {
        let unreadable = marked(&chunk).map(|bytes| (char::REPLACEMENT_CHARACTER, bytes));
        let readable = chunk.valid().chars().map(|character| (character, character.len_utf8()));
        readable.chain(unreadable)
    });
    for (character, bytes) in characters {
        let Some(rest) = left.checked_sub(wire_bytes(character)) else { break };
        (left, taken) = (rest, taken + bytes);
        text.push(character);
    }
    (text, (taken < bytes.len()).then_some(offset + taken as u64))
}

fn no_such_resource(uri: &str) -> ErrorData {
    let uri = named(uri);
    ErrorData::resource_not_found(format!("there is no resource `{uri}`"), Some(json!({"uri": uri})))
}

pub(crate) fn internal(trouble: Trouble) -> ErrorData {
    ErrorData::internal_error(trouble.message.clone(), serde_json::to_value(&trouble).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_threads_are_addresses() {
        let address = Address::parse("agora://threads/t_7f3/log?offset=12").unwrap();
        assert_eq!((address.part, address.offset), (Part::Log, 12));
        assert_eq!(address.next(99), "agora://threads/t_7f3/log?offset=99");
        assert_eq!(Address::parse("agora://threads/t_7f3").unwrap().part, Part::Thread);
        for wrong in [
            "",
            "agora://threads/",
            "agora://threads/d_1",
            "agora://threads/t_1/../../keys",
            "agora://threads/t_1/secrets",
            "file:///etc/passwd",
            "agora://threads/t_1/log?offset=-1",
            "agora://threads/t_1/log?x=1",
        ] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
    }

    /// Reads all pages of a text, each in bounds and each going on.
    fn read(bytes: &[u8]) -> String {
        let (mut whole, mut offset) = (String::new(), 0);
        loop {
            let at = usize::try_from(offset).unwrap();
            // As a file is read: no further than a page may need.
            let (page, next) = cut(&bytes[at..bytes.len().min(at + PAGE + 4)], offset);
            assert!(serde_json::to_string(&page).unwrap().len() <= PAGE + 2);
            whole.push_str(&page);
            match next {
                Some(next) => assert!(std::mem::replace(&mut offset, next) < next, "it goes on"),
                None => return whole,
            }
        }
    }

    #[test]
    fn pages_end_between_characters_and_follow_each_other() {
        for text in
            ["é".repeat(40_000), "\u{1F600}x".repeat(20_000), "\u{1}\n\"".repeat(30_000), String::new()]
        {
            assert_eq!(read(text.as_bytes()), text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_come_to_an_end_too() {
        for byte in [0x80, 0xbf, 0xc3, 0xe2, 0xf0, 0xff] {
            let bytes = vec![byte; 100_000];
            assert_eq!(read(&bytes), "\u{fffd}".repeat(100_000), "{byte:x}");
        }
    }
}

//! The look-ups: what there is to dispatch, what waits for a person, what became of a dispatch. Names, hashes, descriptions and input
//! schemas; no prompts, no values, no secrets.

use agora_core::bundle::BundleKind;
use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_core::state::ThreadState;
use agora_core::template::Template;
use agora_core::{QuestionId, ThreadId};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Trouble;
use super::arguments::{IdArguments, ListArguments, QuestionsArguments};
use super::asked::{AskedReply, Way};
use super::bounds::{goes_in_whole, page};
use super::client::Client;
use super::desk::{Desk, Opened};
use super::reply::{CatalogueReply, Entry, QuestionsReply, SubagentEntry, SubagentsReply};
use super::resources::thread_uri;
use super::standing::state_word;

/// What one page has at most, where its entries are small.
const PAGE: usize = 40;

impl Desk {
    pub(crate) async fn describe(&self, client: &Client, arguments: IdArguments) -> Result<Value, Trouble> {
        let opened = self.opened().await?;
        let found = self.found(opened, client, &arguments.id).await?;
        let result = found.describe().await.map_err(|error| self.explain(error))?;
        let view = found.view().await.map_err(|error| self.explain(error))?;
        let (resource, state) = (thread_uri(&result.thread_id), view.thread.state());
        let mut document = serde_json::to_value(&result).unwrap_or_default();
        if let Value::Object(fields) = &mut document {
            // The streams have no bound, and are resources.
            fields.remove("stdout");
            fields.remove("stderr");
            fields.insert("resource".to_owned(), json!(resource));
            fields.insert("threadState".to_owned(), json!(state_word(state, result.state)));
            if let ThreadState::Failed(failure) = state {
                fields.insert("threadFailure".to_owned(), json!(failure));
            }
        }
        Ok(document)
    }

    pub(crate) async fn questions(
        &self,
        client: &Client,
        arguments: QuestionsArguments,
    ) -> Result<QuestionsReply, Trouble> {
        let opened = self.opened().await?;
        let mut after = match &arguments.after {
            Some(text) => Some(self.asked_at(opened, text).await?),
            None => None,
        };
        let all = !arguments.mine && !client.is_agent();
        let mut found = Vec::new();
        // One more than a page has: then there is a next one.
        while found.len() <= PAGE {
            let namespace = Some(opened.agora.namespace().clone());
            let filter = OpenFilter { namespace, after: after.clone(), most: PAGE };
            let open = opened.agora.inbox(&filter).await.map_err(|error| self.explain(error))?;
            let Some(last) = open.last() else { break };
            after = Some((last.thread_id.clone(), last.question_id.clone()));
            let own = |open: &OpenQuestion| all || open.labels.contains(&client.owner);
            found.extend(open.into_iter().filter(own));
        }
        let mut replies = Vec::new();
        for open in found.iter().take(PAGE + 1) {
            let way = self.way_of(opened, client, open).await?;
            let OpenQuestion { question_id, thread_id, subagent, question, .. } = open;
            replies.push(AskedReply::new(question_id, thread_id, subagent.as_str(), question, way));
        }
        let (questions, more_after) = first_page(&replies, |asked| &asked.question_id);
        Ok(QuestionsReply { questions, more_after })
    }

    /// Finds where a page ended. The question may be closed by now: what comes after it is still there.
    async fn asked_at(&self, opened: &Opened, text: &str) -> Result<(ThreadId, QuestionId), Trouble> {
        let question: QuestionId = text.parse().map_err(|_| {
            Trouble::new("bad-arguments", format!("`{text}` is not a question's id"))
                .hint("give the `moreAfter` of the page before")
        })?;
        let thread = opened.agora.find(text).await.map_err(|error| self.explain(error))?;
        Ok((thread.id().clone(), question))
    }

    async fn way_of(&self, opened: &Opened, client: &Client, open: &OpenQuestion) -> Result<Way, Trouble> {
        let view = opened.engine.world().ledger.thread(&open.thread_id).await;
        let view = view.map_err(|error| self.ledger_trouble(error))?;
        let asked = view.as_ref().and_then(|view| {
            Some((view, view.thread.questions().iter().find(|asked| asked.id == open.question_id)?))
        });
        // One that is gone in between is nobody's to answer.
        Ok(asked.map_or(Way::InPerson, |(view, asked)| self.way(opened, client, view, asked)))
    }

    pub(crate) async fn catalogue(
        &self,
        kind: BundleKind,
        arguments: ListArguments,
    ) -> Result<CatalogueReply, Trouble> {
        let opened = self.opened().await?;
        let listed = opened.agora.list(kind).await.map_err(|error| self.explain(error))?;
        let rest = listed.into_iter().filter(|(name, _)| after(&arguments, name.as_str()));
        let found: Vec<Entry> = rest
            .take(PAGE + 1)
            .map(|(name, version)| Entry {
                name: name.to_string(),
                content_hash: version.content_hash.to_string(),
                registered_at: version.registered_at.to_string(),
            })
            .collect();
        let (entries, more_after) = first_page(&found, |entry| &entry.name);
        Ok(CatalogueReply { entries, more_after })
    }

    pub(crate) async fn subagents(&self, arguments: ListArguments) -> Result<SubagentsReply, Trouble> {
        let opened = self.opened().await?;
        let listed = opened.agora.subagents().await.map_err(|error| self.explain(error))?;
        let rest = listed.into_iter().filter(|found| after(&arguments, found.name.as_str()));
        let found: Vec<SubagentEntry> = rest
            .take(PAGE + 1)
            .map(|found| SubagentEntry {
                name: found.name.to_string(),
                content_hash: found.version.content_hash.to_string(),
                description: found.body.description.clone(),
                runtime: found.body.runtime.as_str().to_owned(),
                input_schema: input_schema(found.body.inputs, found.body.prompt_template.as_ref()),
            })
            .collect();
        let (subagents, more_after) = first_page(&found, |entry| &entry.name);
        Ok(SubagentsReply { subagents, more_after })
    }
}

/// Returns what fits into one answer, and after which of them the next page begins, if there is one.
fn first_page<T: Serialize>(found: &[T], name: impl Fn(&T) -> &String) -> (Vec<Value>, Option<String>) {
    let entries = page(&found[..found.len().min(PAGE)]).0;
    let last = entries.len().checked_sub(1).and_then(|last| found.get(last));
    let is_more = found.len() > entries.len();
    (entries, last.filter(|_| is_more).map(|last| name(last).clone()))
}

fn after(arguments: &ListArguments, name: &str) -> bool {
    arguments.after.as_deref().is_none_or(|after| name > after)
}

/// Returns what a subagent's input must have: what it declares, what its template asks for, or a task in words.
fn input_schema(inputs: Option<Map<String, Value>>, template: Option<&Template>) -> Map<String, Value> {
    let declared = inputs.or_else(|| template.map(Template::derived_inputs));
    match declared {
        Some(schema) if goes_in_whole(&schema) => schema,
        Some(_) => Map::from_iter([
            ("type".to_owned(), json!("object")),
            (
                "description".to_owned(),
                json!("too long to show here: ask your user for `agora explain NAME`"),
            ),
        ]),
        None => Map::from_iter([
            ("type".to_owned(), json!("object")),
            (
                "properties".to_owned(),
                json!({"task": {"type": "string", "description": "What is to be done."}}),
            ),
        ]),
    }
}

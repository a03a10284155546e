//! The look-ups: what there is to dispatch, what waits for a person, what became of a dispatch. Names, hashes, descriptions and input
//! schemas; no prompts, no values, no secrets.

use agora_core::bundle::BundleKind;
use agora_core::provider::ledger::OpenFilter;
use agora_core::template::Template;
use serde_json::{Map, Value, json};

use super::Trouble;
use super::arguments::{IdArguments, ListArguments, QuestionsArguments};
use super::client::Client;
use super::desk::Desk;
use super::reply::{AskedReply, CatalogueReply, Entry, QuestionsReply, SubagentEntry, SubagentsReply};
use super::resources::thread_uri;

/// What one page has.
const PAGE: usize = 40;
/// Open questions that are looked through.
const QUESTIONS: usize = 200;
/// A subagent's schema that is longer is read elsewhere: a page has many of them.
const SCHEMA_BYTES: usize = 4 * 1024;

impl Desk {
    pub(crate) async fn describe(&self, client: &Client, arguments: IdArguments) -> Result<Value, Trouble> {
        let opened = self.opened().await?;
        let found = self.found(opened, client, &arguments.id).await?;
        let result = found.describe().await.map_err(|error| self.explain(error))?;
        let resource = thread_uri(&result.thread_id);
        let mut document = serde_json::to_value(&result).unwrap_or_default();
        if let Value::Object(fields) = &mut document {
            // The streams have no bound, and are resources.
            fields.remove("stdout");
            fields.remove("stderr");
            fields.insert("resource".to_owned(), json!(resource));
        }
        Ok(document)
    }

    pub(crate) async fn questions(
        &self,
        client: &Client,
        arguments: QuestionsArguments,
    ) -> Result<QuestionsReply, Trouble> {
        let opened = self.opened().await?;
        let namespace = Some(opened.agora.namespace().clone());
        let filter = OpenFilter { namespace, after: None, most: QUESTIONS };
        let open = opened.agora.inbox(&filter).await.map_err(|error| self.explain(error))?;
        let all = !arguments.mine && !client.is_agent();
        let own = |labels: &[agora_core::Name]| all || labels.contains(&client.owner);
        let questions = open.iter().filter(|open| own(&open.labels)).map(AskedReply::open).collect();
        Ok(QuestionsReply { questions })
    }

    pub(crate) async fn catalogue(
        &self,
        kind: BundleKind,
        arguments: ListArguments,
    ) -> Result<CatalogueReply, Trouble> {
        let opened = self.opened().await?;
        let listed = opened.agora.list(kind).await.map_err(|error| self.explain(error))?;
        let mut rest = listed.into_iter().filter(|(name, _)| after(&arguments, name.as_str()));
        let entries: Vec<Entry> = rest
            .by_ref()
            .take(PAGE)
            .map(|(name, version)| Entry {
                name: name.to_string(),
                content_hash: version.content_hash.to_string(),
                registered_at: version.registered_at.to_string(),
            })
            .collect();
        let more_after = rest.next().and(entries.last()).map(|last| last.name.clone());
        Ok(CatalogueReply { entries, more_after })
    }

    pub(crate) async fn subagents(&self, arguments: ListArguments) -> Result<SubagentsReply, Trouble> {
        let opened = self.opened().await?;
        let listed = opened.agora.subagents().await.map_err(|error| self.explain(error))?;
        let mut rest = listed.into_iter().filter(|found| after(&arguments, found.name.as_str()));
        let subagents: Vec<SubagentEntry> = rest
            .by_ref()
            .take(PAGE)
            .map(|found| SubagentEntry {
                name: found.name.to_string(),
                content_hash: found.version.content_hash.to_string(),
                description: found.body.description.clone(),
                runtime: found.body.runtime.as_str().to_owned(),
                input_schema: input_schema(found.body.inputs, found.body.prompt_template.as_ref()),
            })
            .collect();
        let more_after = rest.next().and(subagents.last()).map(|last| last.name.clone());
        Ok(SubagentsReply { subagents, more_after })
    }
}

fn after(arguments: &ListArguments, name: &str) -> bool {
    arguments.after.as_deref().is_none_or(|after| name > after)
}

/// Returns what a subagent's input must have: what it declares, what its template asks for, or a task in words.
fn input_schema(inputs: Option<Map<String, Value>>, template: Option<&Template>) -> Map<String, Value> {
    let declared = inputs.or_else(|| template.map(Template::derived_inputs));
    match declared {
        Some(schema) if json!(schema).to_string().len() <= SCHEMA_BYTES => schema,
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

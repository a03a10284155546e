//! `resources/list`: the threads that a client started, newest first, page by page.
//!
//! A thread stands where its first dispatch does, which never moves: what begins meanwhile comes before the first page, and what goes on
//! stays where it was. So nobody who follows the pages hears of a thread twice, or misses one.

use agora_core::DispatchId;
use agora_core::provider::ledger::{DispatchRow, Filter, LedgerError};
use rmcp::model::{ErrorData, ListResourcesResult, Resource};

use super::Trouble;
use super::bounds::named;
use super::client::Client;
use super::desk::{Desk, Opened};
use super::resources::{PAGE, internal, thread_uri};

/// Threads that one page has at most, and rows that are read at a time.
const LISTED: usize = 100;

impl Desk {
    /// Lists the client's own threads after a page's end.
    pub(crate) async fn resources(
        &self,
        client: &Client,
        cursor: Option<&str>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let opened = self.opened().await.map_err(internal)?;
        let mut filter = Filter { label: Some(client.owner.clone()), most: LISTED, ..Filter::default() };
        if let Some(cursor) = cursor {
            filter.before = Some(self.listed_last(opened, client, cursor).await?);
        }
        let (mut listed, mut last, mut left) = (Vec::new(), None, PAGE);
        loop {
            let rows = opened.agora.dispatches(&filter).await;
            let rows = rows.map_err(|error| internal(self.explain(error)))?;
            for row in &rows {
                if !self.begins(opened, row).await.map_err(internal)? {
                    continue;
                }
                let resource = resource(row);
                // With the comma between two of them.
                let weight = serde_json::to_string(&resource).map_or(PAGE, |text| text.len() + 1);
                match left.checked_sub(weight).filter(|_| listed.len() < LISTED) {
                    Some(rest) => left = rest,
                    None => return Ok(page(listed, last)),
                }
                last = Some(row.dispatch_id.to_string());
                listed.push(resource);
            }
            filter.before = rows.last().filter(|_| rows.len() == LISTED).map(|row| row.dispatch_id.clone());
            if filter.before.is_none() {
                return Ok(page(listed, None));
            }
        }
    }

    /// Reads where a page ended. What is no end of a page of this client's, or has been swept since, is nothing to go on from: to begin
    /// anew without a word would tell everything twice.
    async fn listed_last(
        &self,
        opened: &Opened,
        client: &Client,
        cursor: &str,
    ) -> Result<DispatchId, ErrorData> {
        let invalid = || no_such_cursor(cursor);
        let dispatch: DispatchId = cursor.parse().map_err(|_| invalid())?;
        let found = opened.engine.world().ledger.dispatch(&dispatch).await;
        let found = found.map_err(|error| internal(self.ledger_trouble(error)))?;
        let is_own = found.is_some_and(|found| found.job.labels.contains(&client.owner));
        if is_own { Ok(dispatch) } else { Err(invalid()) }
    }

    /// Tells whether a dispatch is its thread's first. That of a thread which cannot be read is left out: who asks for it by its id is told.
    async fn begins(&self, opened: &Opened, row: &DispatchRow) -> Result<bool, Trouble> {
        match opened.engine.world().ledger.thread(&row.thread_id).await {
            Ok(view) => Ok(view.is_some_and(|view| {
                view.thread.dispatches().first().is_some_and(|(first, _)| *first == row.dispatch_id)
            })),
            Err(LedgerError::ThreadDamaged { .. }) => Ok(false),
            Err(error) => Err(self.ledger_trouble(error)),
        }
    }
}

/// Says that a cursor is none that was given out.
pub(super) fn no_such_cursor(cursor: &str) -> ErrorData {
    let words = format!("there is no page after the cursor `{}`: begin without one", named(cursor));
    ErrorData::invalid_params(words, None)
}

fn resource(row: &DispatchRow) -> Resource {
    Resource::new(thread_uri(&row.thread_id), row.thread_id.as_str())
        .with_title(format!("{}, begun {}", row.subagent, row.accepted_at))
        .with_mime_type("application/json")
}

fn page(listed: Vec<Resource>, next: Option<String>) -> ListResourcesResult {
    ListResourcesResult { next_cursor: next, ..ListResourcesResult::with_all_items(listed) }
}

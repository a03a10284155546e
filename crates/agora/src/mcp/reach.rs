//! What a client reaches. A person's client reaches every thread, as the person does at the command line. An agent that was dispatched
//! reaches what it started itself, and hears of the rest not even that it is there.

use agora_core::ThreadId;
use agora_core::provider::ledger::Filter;
use agora_engine::{Error, Thread};

use super::Trouble;
use super::client::Client;
use super::desk::{Desk, Opened};

impl Desk {
    /// Finds a thread by whatever somebody has of it, with its last dispatch.
    pub(crate) async fn thread(
        &self,
        opened: &Opened,
        client: &Client,
        text: &str,
    ) -> Result<Thread, Trouble> {
        let found = self.found(opened, client, text).await?;
        found.latest().await.map_err(|error| self.explain(error))
    }

    /// Finds a thread with the dispatch that was named.
    pub(crate) async fn found(
        &self,
        opened: &Opened,
        client: &Client,
        text: &str,
    ) -> Result<Thread, Trouble> {
        // What is near, or begins the same, may be somebody else's.
        let unknown =
            || Trouble::new("unknown-id", format!("you have started nothing that is known as `{text}`"));
        let found = match opened.agora.find(text).await {
            Err(Error::UnknownId { .. } | Error::AmbiguousId { .. }) if client.is_agent() => {
                return Err(unknown());
            }
            found => found.map_err(|error| self.explain(error))?,
        };
        if self.reaches(opened, client, found.id()).await? { Ok(found) } else { Err(unknown()) }
    }

    pub(crate) async fn reaches(
        &self,
        opened: &Opened,
        client: &Client,
        thread: &ThreadId,
    ) -> Result<bool, Trouble> {
        Ok(!client.is_agent() || self.owns(opened, client, thread).await?)
    }

    /// Tells whether a client started a thread.
    pub(crate) async fn owns(
        &self,
        opened: &Opened,
        client: &Client,
        thread: &ThreadId,
    ) -> Result<bool, Trouble> {
        let (thread, label) = (Some(thread.clone()), Some(client.owner.clone()));
        let filter = Filter { thread, label, most: 1, ..Filter::default() };
        let rows = opened.agora.dispatches(&filter).await.map_err(|error| self.explain(error))?;
        Ok(!rows.is_empty())
    }
}

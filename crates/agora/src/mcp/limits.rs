//! How much one client may start: at once, in all, how deep, and for how much money.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agora_core::Name;
use agora_core::bundle::Budget;
use agora_core::provider::ledger::{Filter, StateWord};
use agora_engine::McpSettings;
use tokio::sync::OwnedMutexGuard;

use super::Trouble;
use super::client::Client;
use super::desk::{Desk, Opened};

/// Lets the calls of one client count and record one after the other: what was counted is then still true when more is recorded.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(crate) async fn take(&self, client: &Client) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(turns.entry(client.counted_as.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

/// Counted in the ledger, so that a server that starts anew counts the same for a client that it knows again.
pub(crate) async fn check(desk: &Desk, opened: &Opened, client: &Client, more: usize) -> Result<(), Trouble> {
    let McpSettings { max_live, max_dispatches, max_depth, .. } = opened.settings;
    if client.depth > max_depth {
        return Err(refused(
            "depth",
            format!("an agent {} below a person may not dispatch", levels(client.depth)),
        )
        .hint(format!("`[mcp] max_depth` is {max_depth}")));
    }
    let own = Filter { label: Some(client.counted_as.clone()), ..Filter::default() };
    let live = vec![StateWord::Accepted, StateWord::Running];
    let (most_live, most) = (count(max_live), count(max_dispatches));
    let live = Filter { states: Some(live), most: most_live.saturating_add(1), ..own.clone() };
    let running = listed(desk, opened, &live).await?;
    if running + more > most_live {
        let words = format!(
            "{running} of your dispatches are under way and {more} more are asked for; at most {max_live} may be at once"
        );
        let hint = match most_live.saturating_sub(running) {
            0 => "wait for some of them with agora_wait, then dispatch the rest".to_owned(),
            room => format!("dispatch {room} now, and the rest when agora_wait says that some have ended"),
        };
        return Err(refused("live", words).hint(hint));
    }
    let started = listed(desk, opened, &Filter { most: most.saturating_add(1), ..own }).await?;
    if started + more > most {
        let words = format!(
            "you have started {started} dispatches, and {max_dispatches} are the most for one client"
        );
        return Err(refused("dispatches", words)
            .hint("your user raises `[mcp] max_dispatches` in their `agora.toml`"));
    }
    Ok(())
}

async fn listed(desk: &Desk, opened: &Opened, filter: &Filter) -> Result<usize, Trouble> {
    let rows = opened.agora.dispatches(filter).await;
    rows.map(|rows| rows.len()).map_err(|error| desk.around.explain(error))
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn refused(which: &str, words: String) -> Trouble {
    Trouble::new(&format!("limit-{which}"), words)
}

fn levels(depth: u32) -> String {
    if depth == 1 { "one level".to_owned() } else { format!("{depth} levels") }
}

/// Returns the budget that a thread gets: the least of what is asked for, what its subagent has, and what the user allows.
pub(crate) fn budget(asked: Option<Budget>, own: Option<Budget>, allowed: Option<f64>) -> Option<Budget> {
    let own = own.unwrap_or_default();
    let asked = asked.unwrap_or_default();
    let budget = Budget {
        turns: least(asked.turns, own.turns),
        tokens: least(asked.tokens, own.tokens),
        minutes: least(asked.minutes, own.minutes),
        usd: least(least(asked.usd, own.usd), allowed),
        on_limit: own.on_limit,
    };
    let limits =
        budget.turns.is_some() || budget.tokens.is_some() || budget.minutes.is_some() || budget.usd.is_some();
    limits.then_some(budget)
}

fn least<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if one < other { one } else { other }),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use agora_core::bundle::OnLimit;

    use super::*;

    fn usd(usd: f64) -> Budget {
        Budget { usd: Some(usd), ..Budget::default() }
    }

    #[test]
    fn a_model_can_only_ask_for_less() {
        let money = |asked: Option<f64>, own: Option<f64>, allowed: Option<f64>| {
            budget(asked.map(usd), own.map(usd), allowed).and_then(|budget| budget.usd)
        };
        assert_eq!(money(None, None, None), None);
        assert_eq!(money(None, None, Some(10.0)), Some(10.0));
        assert_eq!(money(Some(1000.0), None, Some(10.0)), Some(10.0));
        assert_eq!(money(Some(1000.0), Some(2.0), Some(10.0)), Some(2.0));
        assert_eq!(money(Some(0.5), Some(2.0), Some(10.0)), Some(0.5));
    }

    #[test]
    fn what_happens_at_the_limit_is_the_subagents_choice() {
        let own = Budget { turns: Some(9), on_limit: OnLimit::Fail, ..Budget::default() };
        let given = budget(Some(Budget { turns: Some(20), ..Budget::default() }), Some(own), None).unwrap();
        assert_eq!((given.turns, given.on_limit), (Some(9), OnLimit::Fail));
    }
}

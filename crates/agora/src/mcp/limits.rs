//! How much one client may start: at once, in all, how deep, and for how much money.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use agora_core::Name;
use agora_core::bundle::Budget;
use agora_engine::{Allowance, Beyond, McpSettings};
use tokio::sync::OwnedMutexGuard;

use super::Trouble;
use super::client::Client;
use super::desk::Opened;

/// Lets the calls of one client come one after the other: of two that want the last places, one gets all of its own and the other none.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    pub(crate) async fn take(&self, counted_as: &Name) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever has a turn, or waits for one, has a hand on it.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(counted_as.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

/// Returns how much a client may still start, with `more` that it asks for. What its dispatches are labelled with is counted in the
/// ledger, with the write that accepts one more: so it holds for every server of this home, and for one that starts anew.
pub(crate) fn allowance(opened: &Opened, client: &Client, more: usize) -> Allowance {
    let McpSettings { max_live, max_dispatches, .. } = opened.settings;
    Allowance {
        label: client.counted_as.clone(),
        more: u32::try_from(more).unwrap_or(u32::MAX),
        most_live: max_live,
        most: max_dispatches,
    }
}

pub(crate) fn check_depth(opened: &Opened, client: &Client) -> Result<(), Trouble> {
    let max_depth = opened.settings.max_depth;
    if client.depth <= max_depth {
        return Ok(());
    }
    let words = format!("an agent {} below a person may not dispatch", levels(client.depth));
    Err(refused("depth", words).hint(format!("`[mcp] max_depth` is {max_depth}")))
}

/// Says what there would be too many of, and what to do about it.
pub(crate) fn too_many(beyond: Beyond, Allowance { more, most_live, most, .. }: &Allowance) -> Trouble {
    match beyond {
        Beyond::Live(live) => {
            let words = format!(
                "{live} of your dispatches are under way and {more} more are asked for; at most {most_live} may be at once"
            );
            refused("live", words).hint(match u64::from(*most_live).saturating_sub(live) {
                0 => "wait for some of them with agora_wait, then dispatch the rest".to_owned(),
                room => {
                    format!("dispatch {room} now, and the rest when agora_wait says that some have ended")
                }
            })
        }
        Beyond::All(all) => {
            let words = format!(
                "you have started {all} dispatches and {more} more are asked for; {most} are the most for one client"
            );
            refused("dispatches", words).hint("your user raises `[mcp] max_dispatches` in their `agora.toml`")
        }
    }
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

    #[tokio::test]
    async fn only_turns_that_somebody_has_or_waits_for_are_kept() {
        let turns = Turns::default();
        let (ann, bob): (Name, Name) = ("mcp.ann".parse().unwrap(), "mcp.bob".parse().unwrap());
        let anns = turns.take(&ann).await;
        drop(turns.take(&bob).await);
        let mut next = std::pin::pin!(turns.take(&ann));
        tokio::select! {
            biased;
            _ = &mut next => panic!("they come one after the other"),
            () = std::future::ready(()) => {}
        }
        let known = |turns: &Turns| turns.0.lock().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(known(&turns), std::slice::from_ref(&ann));
        drop(anns);
        drop(next.await);
        drop(turns.take(&bob).await);
        assert_eq!(known(&turns), [bob]);
    }

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

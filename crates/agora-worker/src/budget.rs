//! What a thread may use up, and what is left of it.

use std::time::Duration;

use agora_core::bundle::OnLimit;
use agora_core::spent::BudgetPart;

use crate::fault::Fault;
use crate::needs_input::resume::Occasion;
use crate::steps::fetch::Task;

/// What is left for this dispatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Left {
    pub(crate) turns: Option<u32>,
    pub(crate) tokens: Option<u64>,
    pub(crate) usd: Option<f64>,
    pub(crate) time: Option<Duration>,
}

/// Takes off what earlier dispatches of the thread used. Where nothing is left the agent is not started.
pub(crate) fn left(task: &Task) -> Result<Left, Fault> {
    // A person decides for themself when it is enough.
    let taken_over = matches!(task.occasion, Occasion::TakenOver);
    let Some(budget) = task.manifest.limits.budget.as_ref().filter(|_| !taken_over) else {
        return Ok(Left::default());
    };
    let used = &task.manifest.prior.usage;
    let turns = u32::try_from(used.turns).unwrap_or(u32::MAX);
    let minutes = budget.minutes.map(|minutes| Duration::from_secs(u64::from(minutes) * 60));
    let left = Left {
        turns: budget.turns.map(|most| most.saturating_sub(turns)),
        tokens: budget.tokens.map(|most| most.saturating_sub(used.tokens())),
        usd: budget.usd.map(|most| (most - used.cost_usd.unwrap_or(0.0)).max(0.0)),
        time: minutes.map(|most| most.saturating_sub(Duration::from_millis(used.duration_ms))),
    };
    let spent = [
        ("turns", left.turns == Some(0)),
        ("tokens", left.tokens == Some(0)),
        ("usd", left.usd == Some(0.0)),
        ("minutes", left.time == Some(Duration::ZERO)),
    ];
    match spent.iter().find(|(_, spent)| *spent) {
        Some((part, _)) if fails(task) => Err(Fault::Budget(words(task, part))),
        Some((part, _)) => {
            Err(Fault::BudgetSpent { part, what: words(task, part), budget: Box::new(budget.clone()) })
        }
        None => Ok(left),
    }
}

/// Tells whether the dispatch fails at its limit, instead of asking whether to raise it.
pub(crate) fn fails(task: &Task) -> bool {
    task.manifest.limits.budget.as_ref().is_some_and(|budget| budget.on_limit == OnLimit::Fail)
}

/// Tells whether a part of the budget is limited at all.
pub(crate) fn has(task: &Task, part: &str) -> bool {
    task.manifest.limits.budget.as_ref().is_some_and(|budget| match part {
        "turns" => budget.turns.is_some(),
        "tokens" => budget.tokens.is_some(),
        "usd" => budget.usd.is_some(),
        _ => budget.minutes.is_some(),
    })
}

/// Says a limit in words, such as `20 turns`.
pub(crate) fn words(task: &Task, part: &str) -> String {
    let Some(budget) = &task.manifest.limits.budget else { return part.to_owned() };
    let said = BudgetPart::from_word(part).and_then(|part| part.limit_said(budget));
    said.unwrap_or_else(|| part.to_owned())
}

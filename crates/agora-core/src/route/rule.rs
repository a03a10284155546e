//! Routes as a file says them, and how they become the terms of one question.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AtEnd, Expiry, IfStale, Party, PartyKind, Step, Terms};
use crate::name::Name;
use crate::question::{Item, Question};
use crate::time::Timestamp;

/// Which questions a route is for. What is not said matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Match {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<Name>,
    /// One of the dispatch's labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<Name>,
    /// The header of one of its items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

impl Match {
    /// Tells whether it may be for a question of such a dispatch, whatever the question's headers are.
    pub fn dispatch(&self, subagent: &Name, labels: &[Name]) -> bool {
        self.subagent.as_ref().is_none_or(|wanted| wanted == subagent)
            && self.label.as_ref().is_none_or(|wanted| labels.contains(wanted))
    }

    /// Tells whether it is for questions with such headers.
    pub fn headers<'h>(&self, mut headers: impl Iterator<Item = &'h str>) -> bool {
        self.header.as_deref().is_none_or(|wanted| headers.any(|header| header == wanted))
    }
}

/// The steps of a route, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Steps(Vec<Step>);

/// Says why steps lead nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepsError {
    #[error("step {0} asks people, and without `escalate_after` the steps after it are never reached")]
    Unreachable(usize),
    #[error("step {0} has an empty command")]
    EmptyCommand(usize),
}

impl Steps {
    /// Takes steps of which each can be reached.
    pub fn new(steps: Vec<Step>, escalates: bool) -> Result<Self, StepsError> {
        for (number, step) in (1..).zip(&steps) {
            match step {
                Step::Inbox(_) if number < steps.len() && !escalates => {
                    return Err(StepsError::Unreachable(number));
                }
                Step::Command(command) if command.argv.first().is_none_or(String::is_empty) => {
                    return Err(StepsError::EmptyCommand(number));
                }
                Step::Inbox(_) | Step::Command(_) => {}
            }
        }
        Ok(Self(steps))
    }

    pub fn as_slice(&self) -> &[Step] {
        &self.0
    }

    fn parties(&self) -> impl Iterator<Item = &Party> {
        self.0.iter().filter_map(|step| match step {
            Step::Inbox(party) => Some(party),
            Step::Command(_) => None,
        })
    }
}

/// A rule for questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Route {
    pub matches: Match,
    pub steps: Steps,
    /// Nobody: those whom the steps bring it to, else whoever dispatched.
    pub may_answer: Vec<Party>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_after_ms: Option<u64>,
    /// When it expires, after it opened, and what then. `None`: it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<(u64, AtEnd)>,
    pub if_stale: IfStale,
}

impl Route {
    /// Tells whether its expiry holds for a question: a default counts only where the asker named one for each item, and never in
    /// place of a person.
    pub fn can_expire(&self, question: &Question) -> bool {
        let has_default = |item: &Item| item.default_reply().is_some() && !item.is_for_humans();
        match self.expires {
            None => false,
            Some((_, AtEnd::Fail)) => true,
            Some((_, AtEnd::UseDefault)) => question.items().iter().all(has_default),
        }
    }
}

/// All routes that may match, in the order in which they are tried, with the groups that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Routes {
    pub routes: Vec<Route>,
    pub groups: BTreeMap<Party, Vec<Party>>,
}

/// What is known of a question when it opens.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub subagent: &'a Name,
    pub labels: &'a [Name],
    pub question: &'a Question,
    /// Whoever dispatched the thread.
    pub owner: Option<&'a Party>,
    pub now: Timestamp,
}

impl Routes {
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Returns those that can matter for a dispatch, with the groups they name: they go with its job, so that it makes no difference
    /// who carries it, and from which directory.
    pub fn of(&self, subagent: &Name, labels: &[Name]) -> Self {
        let routes: Vec<Route> =
            self.routes.iter().filter(|route| route.matches.dispatch(subagent, labels)).cloned().collect();
        let named = |group: &Party| {
            routes.iter().any(|route| {
                route.may_answer.contains(group) || route.steps.parties().any(|party| party == group)
            })
        };
        let groups = self.groups.iter().filter(|(group, _)| named(group));
        let groups = groups.map(|(group, members)| (group.clone(), members.clone())).collect();
        Self { routes, groups }
    }

    /// Returns the route for a question, which is the first that matches, with its place.
    pub fn matching<'h>(
        &self,
        subagent: &Name,
        labels: &[Name],
        headers: impl Iterator<Item = &'h str> + Clone,
    ) -> Option<(usize, &Route)> {
        let fits = |route: &Route| {
            route.matches.dispatch(subagent, labels) && route.matches.headers(headers.clone())
        };
        self.routes.iter().enumerate().find(|(_, route)| fits(route))
    }

    /// Returns what holds for a question that opens now.
    pub fn terms(&self, asking: Asking<'_>) -> Terms {
        let headers = asking.question.items().iter().filter_map(Item::header);
        let owner: Vec<Party> = asking.owner.cloned().into_iter().collect();
        let Some((_, route)) = self.matching(asking.subagent, asking.labels, headers) else {
            return Terms { may_answer: owner, owner: asking.owner.cloned(), ..Terms::default() };
        };
        let later = |millis: u64| asking.now.plus(Duration::from_millis(millis));
        let mut terms = Terms {
            may_answer: self.entitled_by(route, owner),
            owner: asking.owner.cloned(),
            remind_after_ms: route.remind_after_ms,
            remind_at: route.remind_after_ms.map(later),
            escalate_after_ms: route.escalate_after_ms,
            expiry: route
                .expires
                .filter(|_| route.can_expire(asking.question))
                .map(|(after, then)| Expiry { at: later(after), then }),
            if_stale: route.if_stale,
            steps: route.steps.as_slice().to_vec(),
            ..Terms::default()
        };
        let named = terms.may_answer.iter().chain(route.steps.parties());
        let groups = named.filter(|party| party.kind() == PartyKind::Group);
        terms.members = groups
            .map(|group| (group.clone(), self.groups.get(group).cloned().unwrap_or_default()))
            .collect();
        terms.escalate_at = terms.escalation(0, asking.now);
        terms
    }

    fn entitled_by(&self, route: &Route, owner: Vec<Party>) -> Vec<Party> {
        if !route.may_answer.is_empty() {
            return route.may_answer.clone();
        }
        let mut brought: Vec<Party> = Vec::new();
        for party in route.steps.parties() {
            if !brought.contains(party) {
                brought.push(party.clone());
            }
        }
        if brought.is_empty() { owner } else { brought }
    }
}

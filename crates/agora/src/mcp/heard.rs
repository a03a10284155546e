//! What each client was told: it is not told again unless it asks by name.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use agora_core::{DispatchId, Name, QuestionId};

/// Something that a client can be told once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    /// A question is open.
    Asked(QuestionId),
    /// A thread has ended, with this as its last dispatch. A thread that somebody goes on with ends again.
    Ended(DispatchId),
}

/// What every client has heard, each for itself: another's ears are not its own.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<HashSet<(Name, News)>>);

impl Heard {
    pub(crate) fn has(&self, client: &Name, news: &News) -> bool {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.contains(&(client.clone(), news.clone()))
    }

    pub(crate) fn add(&self, client: &Name, news: News) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((client.clone(), news));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_heard_another_has_not() {
        let (heard, ended) = (Heard::default(), News::Ended("d_1".parse().unwrap()));
        let (ann, bob): (Name, Name) = ("mcp.ann".parse().unwrap(), "mcp.bob".parse().unwrap());
        heard.add(&ann, ended.clone());
        assert!(heard.has(&ann, &ended) && !heard.has(&bob, &ended));
        // Who heard the question has not heard what came of it.
        assert!(!heard.has(&ann, &News::Asked("q_1".parse().unwrap())));
    }
}

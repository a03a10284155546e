//! agora's own question: a part of the thread's budget is used up. What is answered to it is understood here, and nowhere else.

use serde::{Deserialize, Serialize};

use crate::answer::{AnswerError, Replies, Reply};
use crate::bundle::Budget;
use crate::question::{Choice, Question, QuestionError, RawItem, RawQuestion};
use crate::wire::report::Usage;

/// The options of the question.
const RAISE: &str = "Raise it";
const STOP: &str = "Stop here";

/// A part of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BudgetPart {
    Turns,
    Tokens,
    Minutes,
    Usd,
}

/// What somebody decided about a budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// The thread goes on, with so much more. `None`: with as much again.
    Raise(Option<f64>),
    /// The thread ends with what it has.
    Stop,
}

impl BudgetPart {
    /// Returns the word that people use for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::Minutes => "minutes",
            Self::Usd => "USD",
        }
    }

    /// Finds a part by its word, in any letters, of one or of many.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Turns, Self::Tokens, Self::Minutes, Self::Usd];
        all.into_iter()
            .find(|part| [part.word(), part.word_for_one()].iter().any(|own| own.eq_ignore_ascii_case(word)))
    }

    fn word_for_one(self) -> &'static str {
        self.word().strip_suffix('s').unwrap_or(self.word())
    }

    /// Says an amount of it: `1 turn`, `20 turns`, `0.5 USD`.
    fn said(self, amount: f64) -> String {
        let is_one = (amount - 1.0).abs() < f64::EPSILON;
        format!("{amount} {}", if is_one { self.word_for_one() } else { self.word() })
    }

    /// Says how much of it a budget allows, if it limits that.
    pub fn limit_said(self, budget: &Budget) -> Option<String> {
        self.limit(budget).map(|limit| self.said(limit))
    }

    fn limit(self, budget: &Budget) -> Option<f64> {
        match self {
            Self::Turns => budget.turns.map(f64::from),
            #[expect(clippy::cast_precision_loss, reason = "nobody counts that many tokens to the last one")]
            Self::Tokens => budget.tokens.map(|tokens| tokens as f64),
            Self::Minutes => budget.minutes.map(f64::from),
            Self::Usd => budget.usd,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody counts that many to the last one")]
    fn used(self, usage: &Usage) -> f64 {
        match self {
            Self::Turns => usage.turns as f64,
            Self::Tokens => usage.tokens() as f64,
            Self::Minutes => usage.duration_ms as f64 / 60_000.0,
            Self::Usd => usage.cost_usd.unwrap_or(0.0),
        }
    }
}

/// Asks whether to raise a limit. Only a person may say.
pub fn question(part: BudgetPart, budget: &Budget) -> Result<Question, QuestionError> {
    let limit = part.said(part.limit(budget).unwrap_or(0.0));
    let choice =
        |label: &str, description: String| Choice { label: label.to_owned(), description: Some(description) };
    let item = RawItem {
        question: format!("The thread's budget is used up: {limit}. Raise the limit?"),
        header: Some("Budget".to_owned()),
        options: vec![
            choice(RAISE, format!("The thread goes on with as much again: {limit} more.")),
            choice(STOP, "The thread ends with what it has.".to_owned()),
        ],
        allow_other: true,
        human: true,
        ..RawItem::default()
    };
    let context = format!("Or say how much more it may use, such as `+5 {}`.", part.word());
    let asked = RawQuestion { questions: vec![item], context: Some(context), ..RawQuestion::default() };
    Question::new(RawQuestion { spent: Some(part), ..asked })
}

/// Returns what was decided. `None`: the question is not agora's own.
pub fn decision(question: &Question, replies: &Replies) -> Result<Option<Decision>, AnswerError> {
    let (Some(part), [item]) = (question.spent(), question.items()) else { return Ok(None) };
    let refused = || AnswerError::NotAccepted(item.id().clone());
    let Some(Reply::One(text)) = replies.get(item.id()) else { return Err(refused()) };
    match text.trim() {
        RAISE => Ok(Some(Decision::Raise(None))),
        STOP => Ok(Some(Decision::Stop)),
        more => amount(part, more).map(|more| Some(Decision::Raise(Some(more)))).ok_or_else(refused),
    }
}

/// Understands how much more: `+5`, `5 turns`, `$2.50`. Only money comes in parts.
fn amount(part: BudgetPart, text: &str) -> Option<f64> {
    let text = text.strip_prefix('+').unwrap_or(text).trim();
    let text = if part == BudgetPart::Usd { text.strip_prefix('$').unwrap_or(text) } else { text };
    let (number, word) = match text.split_once(char::is_whitespace) {
        Some((number, word)) => (number, Some(word.trim())),
        None => (text, None),
    };
    if word.is_some_and(|word| BudgetPart::from_word(word) != Some(part)) {
        return None;
    }
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = number.parse().ok().filter(|_| digits)?;
    let whole = part == BudgetPart::Usd || number.fract() == 0.0;
    (number.is_finite() && number > 0.0 && number < 1e15 && whole).then_some(number)
}

/// Returns the budget with more of one part: so much more than is used up, or than the limit was, whichever is more.
#[must_use]
pub fn raised(budget: &Budget, part: BudgetPart, more: Option<f64>, used: &Usage) -> Budget {
    let limit = part.limit(budget).unwrap_or(0.0);
    let new = limit.max(part.used(used)) + more.unwrap_or(limit);
    let mut raised = budget.clone();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float stops at the ends, which is what a limit is to do"
    )]
    match part {
        BudgetPart::Turns => raised.turns = Some(new.ceil() as u32),
        BudgetPart::Tokens => raised.tokens = Some(new.ceil() as u64),
        BudgetPart::Minutes => raised.minutes = Some(new.ceil() as u32),
        // A hundred-millionth of a dollar is below every price; the rest is what addition of floats leaves.
        BudgetPart::Usd => raised.usd = Some((new * 1e8).round() / 1e8),
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Given;

    fn budget() -> Budget {
        Budget { turns: Some(20), usd: Some(0.5), ..Budget::default() }
    }

    fn decided(part: BudgetPart, text: &str) -> Result<Option<Decision>, AnswerError> {
        let question = question(part, &budget()).unwrap();
        let replies = Given::Text(text.to_owned()).understood(&question)?;
        decision(&question, &replies)
    }

    #[test]
    fn it_says_what_is_used_up_and_only_people_may_answer() {
        let question = question(BudgetPart::Turns, &budget()).unwrap();
        let item = &question.items()[0];
        assert_eq!(item.question(), "The thread's budget is used up: 20 turns. Raise the limit?");
        assert!(item.is_for_humans());
        let one = Budget { minutes: Some(1), ..Budget::default() };
        let asked = super::question(BudgetPart::Minutes, &one).unwrap();
        assert_eq!(asked.items()[0].question(), "The thread's budget is used up: 1 minute. Raise the limit?");
        let raises = asked.items()[0].options()[0].description.as_deref();
        assert_eq!(raises, Some("The thread goes on with as much again: 1 minute more."));
        let kept: Question = serde_json::from_value(serde_json::to_value(&question).unwrap()).unwrap();
        assert_eq!((&kept, kept.spent()), (&question, Some(BudgetPart::Turns)));
    }

    #[test]
    fn an_answer_raises_stops_or_is_refused() {
        let turns = |text: &str| decided(BudgetPart::Turns, text);
        assert_eq!(turns("Raise it"), Ok(Some(Decision::Raise(None))));
        assert_eq!(turns("1"), Ok(Some(Decision::Raise(None))), "the first option");
        assert_eq!(turns("stop here"), Ok(Some(Decision::Stop)));
        assert_eq!(turns("2"), Ok(Some(Decision::Stop)), "the second option");
        for five in ["5", "+5", "5 turns", "+5 Turns", "5 turn"] {
            assert_eq!(turns(five), Ok(Some(Decision::Raise(Some(5.0)))), "{five}");
        }
        assert_eq!(turns("+2"), Ok(Some(Decision::Raise(Some(2.0)))), "not the second option");
        for wrong in ["yes", "-5", "0", "2.5", "5 USD", "1e9", "nan", "as you like"] {
            assert!(turns(wrong).is_err(), "{wrong}");
        }
        for half in ["$0.5", "0.5 usd", "+0.5"] {
            assert_eq!(decided(BudgetPart::Usd, half), Ok(Some(Decision::Raise(Some(0.5)))), "{half}");
        }
    }

    #[test]
    fn more_is_counted_from_what_is_used_up() {
        let used = Usage { turns: 23, cost_usd: Some(0.1), ..Usage::default() };
        assert_eq!(raised(&budget(), BudgetPart::Turns, Some(5.0), &used).turns, Some(28));
        assert_eq!(raised(&budget(), BudgetPart::Turns, None, &used).turns, Some(43));
        let usd = raised(&budget(), BudgetPart::Usd, Some(0.25), &used);
        assert_eq!((usd.usd, usd.turns), (Some(0.75), Some(20)), "the rest stays");
        assert_eq!(raised(&budget(), BudgetPart::Turns, Some(1e14), &used).turns, Some(u32::MAX));
    }
}

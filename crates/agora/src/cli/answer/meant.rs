//! Which question is meant: the one that is named, or the only one that is open.

use agora_core::answer::{Given, Reply};
use agora_core::provider::ledger::{OpenFilter, OpenQuestion};
use agora_core::question::{Item, Question};
use agora_core::state::{AskedQuestion, QuestionState};
use agora_core::{DispatchId, QuestionId, ThreadId};
use agora_engine::{Agora, Error, Thread};

use crate::answer_line::{line, quoted};
use crate::cli::Context;
use crate::failure::Failure;

/// How somebody said which question they mean.
pub(super) enum Meant {
    Named(String),
    OnlyOne,
    /// The only one, with this word and nothing else: the word may be a name that lost its answer.
    OnlyOneFor(String),
}

impl From<Option<String>> for Meant {
    fn from(id: Option<String>) -> Self {
        id.map_or(Self::OnlyOne, Self::Named)
    }
}

impl Meant {
    /// Finds the question, and what it asks.
    pub(super) async fn question(
        self,
        context: &Context,
        agora: &Agora,
    ) -> Result<(QuestionId, Question), Failure> {
        let open = match &self {
            Self::Named(id) => return named(agora, id).await,
            Self::OnlyOne | Self::OnlyOneFor(_) => open(context, agora).await?,
        };
        if let Self::OnlyOneFor(word) = &self {
            see_answer(agora, &open, word).await?;
        }
        match open.as_slice() {
            [only] => Ok((only.question_id.clone(), only.question.clone())),
            [] => Err(Failure::wrong("nothing-asked", "no question is open")
                .hint("`agora ls` shows what runs and ran")),
            [..] => Err(Failure::wrong(
                "ambiguous-question",
                "several questions are open; say which one is answered",
            )
            .hint("`agora inbox` lists them; `agora answer ID VALUE` names one")),
        }
    }
}

/// Returns what is open: two are enough to know that there is not only one.
async fn open(context: &Context, agora: &Agora) -> Result<Vec<OpenQuestion>, Failure> {
    let namespace = Some(context.config.namespace.clone());
    Ok(agora.inbox(&OpenFilter { namespace, after: None, most: 2 }).await?)
}

/// Finds the question that an id, the beginning of one, a label or `@` means.
async fn named(agora: &Agora, id: &str) -> Result<(QuestionId, Question), Failure> {
    let asked = asked_by(&agora.find(id).await?, id).await?;
    asked.map(|asked| (asked.id, asked.question)).ok_or_else(|| {
        Failure::wrong("nothing-asked", format!("`{id}` has asked nothing"))
            .hint("`agora inbox` shows what is open")
    })
}

/// Returns the question of a thread that was found by a name.
async fn asked_by(thread: &Thread, name: &str) -> Result<Option<AskedQuestion>, Failure> {
    let view = thread.view().await?;
    // A question has the digits of its dispatch; any other name means the question that is open.
    let own = thread.dispatch_id().as_str().replacen("d_", "q_", 1);
    let questions = view.thread.questions();
    let meant = match name.starts_with("q_") {
        true => questions.iter().find(|asked| asked.id.as_str() == own),
        false => questions.iter().rev().find(|asked| asked.state == QuestionState::Open).or(questions.last()),
    };
    Ok(meant.cloned())
}

/// Sees that the only word is an answer. One that names a question has lost its answer on the way, and what counts once cannot be
/// taken back: it is refused, unless the question itself offers it.
async fn see_answer(agora: &Agora, open: &[OpenQuestion], word: &str) -> Result<(), Failure> {
    if matches!(open, [only] if offers(&only.question, word)) {
        return Ok(());
    }
    let meant = match agora.find(word).await {
        Ok(thread) => asked_by(&thread, word).await?,
        Err(Error::UnknownId { .. } | Error::AmbiguousId { .. }) if has_the_form_of_an_id(word) => None,
        Err(Error::UnknownId { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let failure = Failure::wrong("usage", format!("the answer is missing: `{word}` says which question"));
    let failure = failure.hint(match &meant {
        Some(asked) if asked.state == QuestionState::Open => {
            format!("`{}` answers it", line(&asked.id, asked.question.items()))
        }
        Some(asked) => format!("it is not open any more; `agora thread show {}` tells how it went", asked.id),
        None => "`agora inbox` shows what is open".to_owned(),
    });
    Err(match open {
        [only] => failure.hint(format!(
            "if `{word}` is the answer: `agora answer {} {}`",
            only.question_id,
            quoted(word)
        )),
        [..] => failure,
    })
}

/// Tells whether a word chooses among what a question offers, by label or by number.
fn offers(question: &Question, word: &str) -> bool {
    let Ok(replies) = Given::Text(word.to_owned()).understood(question) else { return false };
    let options = || question.items().iter().flat_map(Item::options);
    let offered = |text: &String| options().any(|choice| choice.label == *text);
    replies.values().all(|reply| match reply {
        Reply::One(text) => offered(text),
        Reply::Many(texts) => texts.iter().all(offered),
    })
}

/// Tells whether a word could be an id, of whatever.
fn has_the_form_of_an_id(word: &str) -> bool {
    word.parse::<QuestionId>().is_ok()
        || word.parse::<DispatchId>().is_ok()
        || word.parse::<ThreadId>().is_ok()
}

//! `agora answer`: gives the answer that a thread waits for.

mod file;
mod meant;

use agora_core::QuestionId;
use agora_core::answer::{Answerer, Given};
use agora_core::strict;
use agora_engine::{Agora, Answered, Despite, Error, Thread};
use clap::Args;
use serde_json::{Map, Value, json};

use super::Context;
use super::dispatch::run::{announce, follow_to};
use super::dispatch::{open, start_carrier};
use crate::asking;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::person;
use meant::Meant;

/// Answer a question; the work goes on where it stopped
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  agora answer sqlite                      # the only question that is open\n  agora answer q_7f3k 2                     # the second option\n  agora answer q_7f3k --answers '{\"db\": \"sqlite\", \"why\": \"one file\"}'\n  agora answer q_7f3k --decline"
)]
pub(super) struct Answer {
    /// A question, thread or dispatch id, the beginning of one, a label or `@`, unless only one question is open; then the answer:
    /// an option's label or number, or any text where nothing constrains it; `-` takes it from standard input, as `--from-file -` does
    #[arg(value_name = "[ID] VALUE", num_args = 0..=2, allow_negative_numbers = true)]
    words: Vec<String>,
    /// The answers to several items, as JSON by the items' ids
    #[arg(long, value_name = "JSON", conflicts_with = "from_file")]
    answers: Option<String>,
    /// Take the answer from a file: JSON by the items' ids, or a text as it stands; `-` is standard input
    #[arg(long, value_name = "FILE")]
    from_file: Option<String>,
    /// Say that nobody will answer: the thread ends
    #[arg(long, conflicts_with_all = ["answers", "from_file", "follow"])]
    decline: bool,
    /// Answer although what the question rested on has changed, where its route asks for that
    #[arg(long, conflicts_with = "decline")]
    despite_changes: bool,
    /// Stay, and tell how it goes on
    #[arg(long)]
    follow: bool,
    /// With --follow: end with code 0, not 4, when the agent asks again
    #[arg(long, requires = "follow")]
    pause_ok: bool,
}

/// Stands for what comes on standard input.
const STANDARD_INPUT: &str = "-";

/// What is to be done with which question.
struct Wish {
    meant: Meant,
    /// `None`: to decline it.
    said: Option<Said>,
}

/// What is said to it.
enum Said {
    Given(Given),
    /// What a file holds: only with the question it can be understood.
    Text(String),
}

impl Answer {
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let (follow, pause_ok) = (self.follow, self.pause_ok);
        let despite = if self.despite_changes { Despite::Anything } else { Despite::Nothing };
        let Wish { meant, said } = self.wish()?;
        let agora = open(context).await?;
        let (question, asked) = meant.question(context, &agora).await?;
        let by = person::at_the_terminal();
        let given = match said {
            Some(Said::Given(given)) => given,
            Some(Said::Text(text)) => file::given(&text, &asked)?,
            None => {
                let asker = give_up(context, &agora, &question, &by).await??;
                let document = json!({
                    "questionId": question,
                    "threadId": asker.id(),
                    "dispatchId": asker.dispatch_id(),
                    "declined": true,
                });
                context.ui.result(|| document, || format!("{question}\n"))?;
                context.ui.note("declined; its thread has ended");
                return Ok(Exit::Done);
            }
        };
        if follow {
            let (thread, answered) = submit(context, &agora, despite, &question, &given, &by).await??;
            if !answered.goes_on {
                return stopped(context, &answered);
            }
            context.ui.note(format_args!("answered; it goes on as {}", answered.dispatch_id));
            let wrap = |result: Value| {
                let mut document = document(&answered);
                document["result"] = result;
                document
            };
            return follow_to(context, &agora, &thread, pause_ok, &wrap).await;
        }
        let answered = give(context, &agora, despite, &question, &given, &by).await??;
        if !answered.goes_on {
            return stopped(context, &answered);
        }
        context.ui.result(|| document(&answered), || format!("{}\n", answered.dispatch_id))?;
        let id = &answered.dispatch_id;
        context.ui.note("answered; it goes on where it stopped");
        context.ui.hint(format_args!("`agora logs -f {id}` follows it, `agora show {id}` tells how it went"));
        Ok(Exit::Done)
    }

    /// Takes the words apart: with a value of its own by an option, the only word is the id; else the last one is the value.
    fn wish(self) -> Result<Wish, Failure> {
        let mut words = self.words;
        let piped = !self.decline && self.answers.is_none() && self.from_file.is_none();
        let piped = words.pop_if(|last| piped && last == STANDARD_INPUT);
        let mut words = words.into_iter();
        let (first, second) = (words.next(), words.next());
        let own = match (&self.answers, self.from_file.as_ref().or(piped.as_ref())) {
            (Some(answers), _) => Some(Said::Given(Given::ByItem(object(answers)?))),
            (None, Some(file)) => Some(Said::Text(file::read(file)?)),
            (None, None) => None,
        };
        let usage =
            |text: &str| Failure::wrong("usage", text.to_owned()).hint("`agora answer --help` has examples");
        match (own, self.decline, first, second) {
            (Some(_), _, _, Some(_)) | (None, true, _, Some(_)) => {
                Err(usage("there is an answer too many: with this option only the question is named"))
            }
            (None, true, id, None) => Ok(Wish { meant: id.into(), said: None }),
            (Some(said), _, id, None) => Ok(Wish { meant: id.into(), said: Some(said) }),
            (None, false, Some(id), Some(value)) => {
                Ok(Wish { meant: Meant::Named(id), said: Some(Said::Given(Given::Text(value))) })
            }
            (None, false, Some(value), None) => Ok(Wish {
                meant: Meant::OnlyOneFor(value.clone()),
                said: Some(Said::Given(Given::Text(value))),
            }),
            (None, false, None, _) => Err(usage("the answer is missing")),
        }
    }
}

/// Gives an answer, and leaves what goes on with it to a carrier of its own. The inner error says that the answer did not count.
pub(super) async fn give(
    context: &Context,
    agora: &Agora,
    despite: Despite,
    question: &QuestionId,
    given: &Given,
    by: &Answerer,
) -> Result<Result<Answered, Error>, Failure> {
    let (thread, answered) = match submit(context, agora, despite, question, given, by).await? {
        Ok(done) => done,
        Err(error) => return Ok(Err(error)),
    };
    if answered.goes_on {
        wait_for_start(&thread).await?;
        thread.let_go().await;
        start_carrier(context, std::slice::from_ref(thread.id()))?;
    }
    Ok(Ok(answered))
}

/// Gives an answer, and says what has changed since the question was asked. The inner error says that the answer did not count.
async fn submit(
    context: &Context,
    agora: &Agora,
    despite: Despite,
    question: &QuestionId,
    given: &Given,
    by: &Answerer,
) -> Result<Result<(Thread, Answered), Error>, Failure> {
    let asker = agora.asker(question).await?;
    let given = counted(context, &asker, asker.answer_despite(despite, question, given, by).await).await?;
    if let Ok((thread, answered)) = &given {
        announce(context, thread);
        asking::changes(&answered.stale).iter().for_each(|line| context.ui.note(line));
    }
    Ok(given)
}

/// Declines a question, and returns who asked. The inner error says that it is not open to that.
pub(super) async fn give_up(
    context: &Context,
    agora: &Agora,
    question: &QuestionId,
    by: &Answerer,
) -> Result<Result<Thread, Error>, Failure> {
    let asker = agora.asker(question).await?;
    let declined = counted(context, &asker, asker.decline(question, by).await).await?;
    Ok(declined.map(|()| asker))
}

/// Parts what failed from an answer that did not count. What its thread goes on with all the same, because the question had expired
/// and nobody had looked at the clock, is left to a carrier: this command is about to end.
async fn counted<T>(
    context: &Context,
    asker: &Thread,
    given: Result<T, Error>,
) -> Result<Result<T, Error>, Failure> {
    match given {
        Err(error @ Error::Answer(_)) => {
            if asker.let_go().await {
                start_carrier(context, std::slice::from_ref(asker.id()))?;
            }
            Ok(Err(error))
        }
        Err(error) => Err(error.into()),
        Ok(done) => Ok(Ok(done)),
    }
}

fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::wrong("bad-answers", "the answers are not a JSON object")
            .because(error)
            .hint("such as `--answers '{\"q1\": \"sqlite\"}'`; the keys are the items' ids")
    };
    // Of a key that is there twice nobody knows which was meant, and one of them would be signed.
    match strict::parse(text) {
        Ok(Value::Object(values)) => Ok(values),
        Ok(_) => Err(wrong(&"it is JSON of another kind")),
        Err(error) => Err(wrong(&error)),
    }
}

/// Returns when the next dispatch has started, has ended, or waits for room: it had room with its acceptance, or has to wait.
async fn wait_for_start(thread: &Thread) -> Result<(), Failure> {
    let mut events = thread.events(0)?;
    while thread.describe().await?.state == "starting" && events.next().await?.is_some() {}
    Ok(())
}

fn stopped(context: &Context, answered: &Answered) -> Result<Exit, Failure> {
    context.ui.result(|| document(answered), || format!("{}\n", answered.dispatch_id))?;
    context.ui.note("answered: it stops here, and its thread has ended");
    Ok(Exit::Done)
}

fn document(answered: &Answered) -> Value {
    let mut document = json!({
        "questionId": answered.question_id,
        "threadId": answered.thread_id,
        "dispatchId": answered.dispatch_id,
        "receipt": answered.receipt,
        "stale": answered.stale,
        "goesOn": answered.goes_on,
    });
    if let Some(from) = answered.auth_from {
        document["authFrom"] = json!(from);
    }
    document
}

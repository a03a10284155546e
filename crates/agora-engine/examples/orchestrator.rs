//! An orchestrator: it dispatches, answers what it knows, leaves the rest to people, and keeps books of what it cost.
//!
//! ```console
//! $ cargo install --path crates/agora      # workers are `agora` programs: one must be on the path
//! $ cargo run --package agora-engine --example orchestrator
//! ```
//!
//! What it knows it answers as the program that it is, `agent:orchestrator`, and never in a person's name. That is for whoever dispatches
//! to allow, in their `agora.toml`; without it the first answer is refused, and says so:
//!
//! ```toml
//! [answers]
//! agents = "allow"
//! ```

use std::collections::BTreeMap;
use std::error::Error;

use agora_engine::{Agora, Answerer, Dispatch, DispatchResult, NeedsInput, Reaction, Thread};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example tells")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in run(&Agora::open_default()?).await? {
        println!("{line}");
    }
    Ok(())
}

/// Who may answer what: here a table by the question's header. In earnest a database, a chat, another agent.
struct Policy {
    known: BTreeMap<&'static str, &'static str>,
}

impl Policy {
    /// Answers what is in the table. What is meant for people, or not known, is left open: it waits, and costs nothing.
    fn react(&self, asked: &NeedsInput) -> Reaction {
        let [item] = asked.asked.items() else { return Reaction::Leave };
        match item.header().and_then(|header| self.known.get(header)) {
            Some(answer) if !item.is_for_humans() => (*answer).into(),
            _ => Reaction::Leave,
        }
    }
}

/// What a thread cost, over all its dispatches. A runtime that reports no price is counted as such, not as free.
#[derive(Debug, Default)]
struct Books {
    dispatches: u32,
    tokens: u64,
    usd: f64,
    unpriced: u32,
}

impl Books {
    fn enter(&mut self, result: &DispatchResult) {
        self.dispatches += 1;
        let usage = result.usage.as_ref();
        self.tokens += usage.map_or(0, agora_engine::Usage::tokens);
        match usage.and_then(|usage| usage.cost_usd) {
            Some(usd) => self.usd += usd,
            None => self.unpriced += 1,
        }
    }
}

/// Drives a thread until it has ended, or waits for somebody else. Each pause is the end of one dispatch, each answer the beginning of
/// the next: the same subagent, workspace and bundles, with the answer and the agent's own notes. A crash anywhere in here loses
/// nothing; whoever comes next finds the thread with `agora.thread(id)`, and calls this again.
async fn drive(
    mut thread: Thread,
    policy: &Policy,
    me: &Answerer,
    books: &mut Books,
    told: &mut Vec<String>,
) -> Result<DispatchResult, Box<dyn Error>> {
    loop {
        let result = thread.wait().await?;
        books.enter(&result);
        let Some(asked) = &result.needs_input else { return Ok(result) };
        match policy.react(asked) {
            Reaction::Answer(given) => {
                let (next, answered) = thread.answer(given, me).await?;
                let answers = serde_json::to_string(&answered.receipt.statement.answers)?;
                told.push(format!("asked \"{}\", answered {answers}", asked.question));
                thread = next;
            }
            Reaction::Leave | Reaction::Decline => {
                told.push(format!("asked \"{}\", left to a person", asked.question));
                return Ok(result);
            }
        }
    }
}

/// The agent: a script that asks twice, once for something that a table knows, and once for a person.
const PLANNER: &str = r#"
ask() { cat > .agora/needs_input.json; touch "asked-$1"; exit; }
[ -e asked-1 ] || ask 1 <<'END'
{"question": "Which database?", "header": "Database", "context": "The plan needs one, and two are in use.",
 "options": [{"label": "sqlite", "description": "One file, one writer."}, {"label": "postgres", "description": "A server to run."}],
 "partial_state": {"considered": ["sqlite", "postgres"], "remaining": ["schema", "rollout"]}}
END
[ -e asked-2 ] || ask 2 <<'END'
{"question": "Roll it out today?", "header": "Rollout", "human": true, "context": "It is Friday.",
 "options": [{"label": "yes", "description": "Users see it tonight."}, {"label": "no", "description": "It waits for Monday."}],
 "partial_state": {"remaining": ["rollout"]}}
END
echo planned
"#;

/// Returns what there is to tell.
pub(crate) async fn run(agora: &Agora) -> Result<Vec<String>, Box<dyn Error>> {
    // Takes in what ended while nobody looked.
    agora.recover().await?;
    let planner = json!({"runtime": "command", "command": ["/bin/sh", "-c", PLANNER]});
    agora.register_subagent(&"planner".parse()?, serde_json::from_value(planner)?, &[]).await?;

    let policy = Policy { known: BTreeMap::from([("Database", "sqlite")]) };
    let me = Answerer::new("agent:orchestrator", "example");
    let (mut books, mut told) = (Books::default(), Vec::new());

    // Where whoever dispatches may answer, an agent that is allowed to may do so for them.
    let plan = Dispatch::to("planner").owner("user:ann").input(json!({"task": "plan the move"}));
    let thread = agora.dispatch(plan).await?;
    let id = thread.id().clone();
    let paused = drive(thread, &policy, &me, &mut books, &mut told).await?;
    told.push(format!("{}: nothing runs", paused.state));

    // Hours later a person answers: with `agora answer`, or through whatever asked them. From any process.
    let person = Answerer::new("user:ann", "chat");
    let (next, _) = agora.thread(&id).await?.answer("no", &person).await?;
    let done = drive(next, &policy, &me, &mut books, &mut told).await?;

    told.push(format!("{}: {}", done.state, done.output.text.trim()));
    told.push(format!(
        "{} dispatches, {} tokens, ${:.2}, {} without a price",
        books.dispatches, books.tokens, books.usd, books.unpriced
    ));
    Ok(told)
}

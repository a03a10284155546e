//! Dispatches a subagent from a program of one's own, tells what happens, and goes on with it.
//!
//! ```console
//! $ cargo install --path crates/agora      # workers are `agora` programs: one must be on the path
//! $ cargo run --package agora-engine --example dispatch
//! ```

use std::error::Error;

use agora_engine::{Agora, Attendance, Dispatch};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::print_stdout, reason = "an example tells")]
async fn main() -> Result<(), Box<dyn Error>> {
    for line in run(&Agora::open_default()?).await? {
        println!("{line}");
    }
    Ok(())
}

/// Returns what there is to tell.
pub(crate) async fn run(agora: &Agora) -> Result<Vec<String>, Box<dyn Error>> {
    // Takes in what ended while nobody looked.
    agora.recover().await?;

    let counter = json!({
        "runtime": "command",
        "command": ["/bin/sh", "-c", "echo x >> count; wc -l < count"],
    });
    agora.register_subagent(&"counter".parse()?, serde_json::from_value(counter)?, &[]).await?;

    // When this returns it is recorded, and not lost whatever happens.
    let thread = agora.dispatch(Dispatch::to("counter").label("example")).await?;
    let mut told = Vec::new();
    let mut events = thread.events(0)?;
    while let Some(entry) = events.next().await? {
        told.push(entry.what.kind().to_owned());
    }
    let first = thread.wait().await?;
    told.push(format!("{}: {}", first.state, first.output.text.trim()));

    // The same workspace, and the agent's own session where it has one.
    let second = thread.go_on(None, Attendance::Watched).await?.wait().await?;
    told.push(format!("{}: {}", second.state, second.output.text.trim()));
    Ok(told)
}

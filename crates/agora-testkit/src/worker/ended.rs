//! What a worker said and left.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use agora_core::answer::Answerer;
use agora_core::event::Event;
use agora_core::question::Question;
use agora_core::reason::Failure;
use agora_core::wire::line::{EventKey, Line, Ran, Said};
use agora_core::wire::manifest::{Continuation, GivenAnswer, Location, PriorSession, SealedAt, Verbatim};
use agora_core::wire::receipt::{ReceiptSigner, Statement};
use agora_core::wire::report::{Artifact, Report};
use agora_core::{ContentHash, Timestamp, canonical};
use serde_json::{Value, json};

use super::{Dispatch, EVENT_KEY, RECEIPT_KEY};

/// A dispatch whose worker has ended.
#[derive(Debug)]
pub struct Ended {
    pub dispatch: Dispatch,
    /// What a signal ended has none.
    pub code: Option<i32>,
    pub lines: Vec<Line>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub(super) fn new(dispatch: Dispatch, output: Output) -> Self {
        let stdout = String::from_utf8(output.stdout).unwrap();
        let read = |text: &str| {
            Line::parse(text, &EventKey::new(EVENT_KEY)).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        let lines = stdout.lines().map(read).collect();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { dispatch, code: output.status.code(), lines, stdout, stderr }
    }

    /// Returns the kinds of the lines, in their order.
    pub fn kinds(&self) -> Vec<String> {
        let kind =
            |text: &str| serde_json::from_str::<Value>(text).unwrap()["kind"].as_str().unwrap().to_owned();
        self.stdout.lines().map(kind).collect()
    }

    /// Returns the one terminal event. It is the last line, and the stored outcome says the same.
    #[track_caller]
    pub fn terminal(&self) -> &Event {
        let events = self.lines.iter().filter_map(|line| match &line.said {
            Said::Event(event) => Some(event),
            _ => None,
        });
        let terminal: Vec<&Event> = events.filter(|event| event.is_terminal()).collect();
        assert_eq!(terminal.len(), 1, "exactly one terminal event\n{}{}", self.stdout, self.stderr);
        let stored = fs::read_to_string(self.dispatch.dir().join("out/outcome.json")).unwrap();
        assert_eq!(self.stdout.lines().last(), stored.lines().next(), "the outcome is the last line");
        terminal[0]
    }

    #[track_caller]
    pub fn finished(&self) -> Report {
        assert!(matches!(self.terminal(), Event::Finished { .. }), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.code, Some(0));
        self.report()
    }

    #[track_caller]
    pub fn asked(&self) -> &Question {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        match self.terminal() {
            Event::NeedsInput { question, .. } => question,
            other => panic!("it asked nothing: {other:?}"),
        }
    }

    #[track_caller]
    pub fn failed(&self) -> &Failure {
        match self.terminal() {
            Event::Failed { failure, .. } => {
                assert_ne!(self.code, Some(0));
                failure
            }
            other => panic!("it did not fail: {other:?}"),
        }
    }

    #[track_caller]
    pub fn cancelled(&self) -> Report {
        assert!(matches!(self.terminal(), Event::Cancelled { .. }), "{}{}", self.stdout, self.stderr);
        self.report()
    }

    /// Returns the report.
    #[track_caller]
    pub fn report(&self) -> Report {
        let text = fs::read_to_string(self.dispatch.dir().join("out/report.json")).unwrap();
        match Line::parse(text.trim_end(), &EventKey::new(EVENT_KEY)).unwrap().said {
            Said::Report(report) => *report,
            other => panic!("{other:?}"),
        }
    }

    /// Returns what was said of the agent's run.
    pub fn adapter_ran(&self) -> Option<&Ran> {
        self.lines.iter().find_map(|line| match &line.said {
            Said::AdapterRan(ran) => Some(ran),
            _ => None,
        })
    }

    /// Returns a file of the workspace as it is now.
    pub fn file(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.dispatch.work().join(path)).ok()
    }

    pub fn out(&self, name: &str) -> PathBuf {
        self.dispatch.dir().join("out").join(name)
    }

    /// Puts the next dispatch of the thread together, with this answer to what was asked. It has a directory of its own.
    #[track_caller]
    pub fn answered(&self, answers: Value) -> Dispatch {
        let (question, question_id) = match self.terminal() {
            Event::NeedsInput { question, question_id, .. } => (question, question_id.clone()),
            other => panic!("it asked nothing: {other:?}"),
        };
        let manifest = &self.dispatch.manifest;
        let statement = Statement {
            namespace: manifest.namespace.clone(),
            thread_id: manifest.thread_id.clone(),
            question_id: question_id.clone(),
            question_hash: question.hash().unwrap(),
            bundles_hash: canonical::hash(&manifest.resolved()).unwrap(),
            answers: serde_json::from_value(answers).unwrap(),
            by: Answerer::new("user:ann", "test"),
            at: Timestamp::from_millis(1_763_233_200_000),
        };
        let receipt = Box::new(ReceiptSigner::new(&RECEIPT_KEY).sign(statement).unwrap());
        let question = Verbatim(serde_json::to_value(question).unwrap());
        self.next(Continuation::Answered(GivenAnswer { question_id, question, receipt }))
    }

    /// Puts the next dispatch of the thread together, as its owner continues it.
    #[track_caller]
    pub fn continued(&self, message: Option<&str>) -> Dispatch {
        let answer = match self.terminal() {
            Event::Failed { .. } | Event::Cancelled { .. } => {
                self.dispatch.manifest.continuation.as_ref().and_then(Continuation::answer)
            }
            _ => None,
        };
        let answer = answer.cloned().map(Box::new);
        self.next(Continuation::Continued { message: message.map(str::to_owned), answer })
    }

    fn next(&self, continuation: Continuation) -> Dispatch {
        let report = self.report();
        let sealed = |name: &str| {
            let kept = report.artifacts.iter().find(|artifact| artifact.path == name)?;
            Some(self.sealed(kept))
        };
        let root = tempfile::Builder::new().prefix("agora-worker-test").tempdir().unwrap();
        let mut manifest = self.dispatch.manifest.clone();
        let number: u32 = manifest.dispatch_id.as_str()[2..].parse().unwrap();
        manifest.dispatch_id = format!("d_{}", number + 1).parse().unwrap();
        manifest.continuation = Some(continuation);
        manifest.prior.workspace = sealed("workspace.sealed");
        manifest.prior.baseline = sealed("baseline.sealed");
        manifest.prior.session = report
            .session
            .clone()
            .zip(sealed("session.sealed"))
            .map(|(mark, files)| PriorSession { mark, files });
        if let Some(usage) = &report.usage {
            manifest.prior.usage = manifest.prior.usage.plus(usage);
        }
        Dispatch {
            worker: self.dispatch.worker.clone(),
            root,
            manifest,
            adapter: self.dispatch.adapter.clone(),
            secrets: self.dispatch.secrets.clone(),
            environment: self.dispatch.environment.clone(),
            through: self.dispatch.through.clone(),
            with_receipt_key: true,
        }
    }

    fn sealed(&self, artifact: &Artifact) -> SealedAt {
        let path = self.out(&artifact.path);
        let bytes = fs::read(&path).unwrap();
        assert_eq!(
            (ContentHash::of(&bytes), bytes.len() as u64),
            (artifact.sha256, artifact.size),
            "{}",
            artifact.path
        );
        SealedAt { location: Location::file(&path).unwrap(), sha256: artifact.sha256 }
    }

    /// Returns every byte that left the worker: its output and the files in `out`, but for what is sealed.
    pub fn everything(&self) -> Vec<(String, Vec<u8>)> {
        let files = crate::cli::files_below(&self.dispatch.dir().join("out")).into_iter();
        let files = files.map(|(path, bytes)| (path.display().to_string(), bytes));
        let shown = files.filter(|(path, _)| !path.ends_with(".sealed"));
        let spoken = [("stdout".to_owned(), self.stdout.clone()), ("stderr".to_owned(), self.stderr.clone())];
        shown.chain(spoken.map(|(name, text)| (name, text.into_bytes()))).collect()
    }

    /// Says it in a line, for a test to compare.
    pub fn summary(&self) -> Value {
        match self.terminal() {
            Event::Failed { failure, .. } => json!(format!("failed {} {}", failure.reason, failure.code)),
            other => json!(other.kind()),
        }
    }
}

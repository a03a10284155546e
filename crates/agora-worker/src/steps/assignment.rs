//! Step 1: what this worker is to do.

use std::collections::BTreeMap;
use std::io::{self, Read};

use agora_core::limits::{BOOTSTRAP_BYTES, DISPATCH_MANIFEST_BYTES};
use agora_core::wire::bootstrap::{self, Bootstrap, BootstrapError, Supplied};
use agora_core::wire::manifest::{Continuation, DispatchManifest, GivenAnswer};
use agora_core::wire::receipt::{About, ReceiptKey};

use super::fetch;
use crate::fault::Fault;
use crate::needs_input::resume::{Answered, Occasion};
use crate::place::Place;
use crate::seal::Seal;

/// A manifest that was checked, and why it came.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) manifest: DispatchManifest,
    pub(crate) occasion: Occasion,
    /// Opens what the thread left, and seals what it leaves now.
    pub(crate) seal: Seal,
    /// What the engine had of each secret, by name.
    pub(crate) supplied: BTreeMap<String, Supplied>,
}

/// Reads the one line on standard input. Not to the end of the file: whoever started us may keep it open.
pub(crate) fn read_bootstrap(stdin: impl Read) -> io::Result<Result<Bootstrap, BootstrapError>> {
    let mut line = zeroize::Zeroizing::new(Vec::new());
    io::BufRead::read_until(&mut io::BufReader::new(stdin).take(BOOTSTRAP_BYTES), b'\n', &mut line)?;
    Ok(bootstrap::parse(&line))
}

/// Fetches the manifest, and takes an answer only with a receipt.
pub(crate) fn read(bootstrap: Bootstrap, place: &Place) -> Result<Assignment, Fault> {
    let at = &bootstrap.manifest;
    let bytes = fetch::read("the dispatch's manifest", &at.location, at.hash, DISPATCH_MANIFEST_BYTES)?;
    let manifest = DispatchManifest::decode(&bytes).map_err(Fault::Manifest)?;
    if manifest.dispatch_id != place.dispatch_id {
        let (expected, found) = (place.dispatch_id.to_string(), manifest.dispatch_id.to_string());
        return Err(Fault::OtherDispatch { expected, found });
    }
    let occasion = occasion(&manifest, bootstrap.receipt_key.as_ref())?;
    let seal = Seal::new(bootstrap.thread_key, manifest.thread_id.clone());
    Ok(Assignment { manifest, occasion, seal, supplied: bootstrap.secrets })
}

fn occasion(manifest: &DispatchManifest, key: Option<&ReceiptKey>) -> Result<Occasion, Fault> {
    let Some(continuation) = &manifest.continuation else { return Ok(Occasion::First) };
    let answered = |answer| answered(answer, manifest, key).map(Box::new);
    Ok(match continuation {
        Continuation::Answered(answer) => Occasion::Answered(answered(answer)?),
        Continuation::Continued { message, answer } => Occasion::Continued {
            message: message.clone(),
            answered: answer.as_deref().map(answered).transpose()?,
        },
        Continuation::TakenOver { by: _ } => Occasion::TakenOver,
    })
}

/// Checks an answer's receipt, which names all that it was given for.
fn answered(
    answer: &GivenAnswer,
    manifest: &DispatchManifest,
    key: Option<&ReceiptKey>,
) -> Result<Answered, Fault> {
    let question = answer.question().map_err(Fault::Question)?;
    let (GivenAnswer { question_id, receipt, .. }, key) = (answer, key.ok_or(Fault::NoReceiptKey)?);
    let resolved = manifest.resolved();
    let about = About {
        namespace: &manifest.namespace,
        thread_id: &manifest.thread_id,
        question_id,
        question: &question,
        resolved: &resolved,
    };
    let replies = receipt.check(key, about).map_err(Fault::Receipt)?.clone();
    let (by, at) = (receipt.statement.by.clone(), receipt.statement.at);
    Ok(Answered { question_id: question_id.clone(), question, replies, by, at })
}

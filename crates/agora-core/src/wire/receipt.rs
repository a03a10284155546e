//! Receipts: who answered, by which door, when, over exactly which question. Signed, so that an agent cannot answer itself.

use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::hex;
use crate::answer::{self, AnswerError, Answerer, Replies};
use crate::canonical::{self, CanonicalError};
use crate::event::Resolved;
use crate::hash::ContentHash;
use crate::id::{QuestionId, ThreadId};
use crate::name::Namespace;
use crate::question::Question;
use crate::text::serde_as_text;
use crate::time::Timestamp;

/// What is signed: an answer to one question of one thread, for the bundles that run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    pub namespace: Namespace,
    pub thread_id: ThreadId,
    pub question_id: QuestionId,
    pub question_hash: ContentHash,
    /// The hash of everything that the thread's names resolved to.
    pub bundles_hash: ContentHash,
    pub answers: Replies,
    pub by: Answerer,
    pub at: Timestamp,
}

/// A statement with its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Receipt {
    pub statement: Statement,
    /// Ed25519 over the statement's canonical form, in hex.
    pub signature: String,
}

/// The public key that receipts are checked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiptKey(VerifyingKey);

/// Says why a text is not a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a receipt key is an Ed25519 public key of 64 hex digits")]
pub struct ReceiptKeyError;

impl std::str::FromStr for ReceiptKey {
    type Err = ReceiptKeyError;

    fn from_str(text: &str) -> Result<Self, ReceiptKeyError> {
        let bytes = hex::decode(text).ok_or(ReceiptKeyError)?;
        VerifyingKey::from_bytes(&bytes).map(Self).map_err(|_| ReceiptKeyError)
    }
}

impl fmt::Display for ReceiptKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0.as_bytes()))
    }
}

serde_as_text!(ReceiptKey);

/// Signs receipts. Stays outside every wall.
pub struct ReceiptSigner(SigningKey);

impl fmt::Debug for ReceiptSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReceiptSigner(…)")
    }
}

impl ReceiptSigner {
    /// Takes the 32 bytes of a private key.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(bytes))
    }

    /// Returns the key that checks what this one signs.
    pub fn public_key(&self) -> ReceiptKey {
        ReceiptKey(self.0.verifying_key())
    }

    pub fn sign(&self, statement: Statement) -> Result<Receipt, CanonicalError> {
        let signature = self.0.sign(&canonical::to_bytes(&statement)?);
        Ok(Receipt { statement, signature: hex::encode(&signature.to_bytes()) })
    }
}

/// What a receipt must be about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub namespace: &'a Namespace,
    pub thread_id: &'a ThreadId,
    pub question_id: &'a QuestionId,
    pub question: &'a Question,
    pub resolved: &'a Resolved,
}

/// Says why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    #[error("its receipt is not signed by the key of this agora")]
    Signature,
    #[error("its receipt is about another {0}")]
    Elsewhere(&'static str),
    #[error("it does not answer the question")]
    Answer(#[source] AnswerError),
    #[error("it has no canonical form")]
    Canonical(#[source] CanonicalError),
}

impl Receipt {
    /// Returns the answers, if they were given by somebody entitled, to this question, of this thread.
    pub fn check(&self, key: &ReceiptKey, about: About<'_>) -> Result<&Replies, ReceiptError> {
        let statement = &self.statement;
        let bytes = canonical::to_bytes(statement).map_err(ReceiptError::Canonical)?;
        let signature = hex::decode(&self.signature).ok_or(ReceiptError::Signature)?;
        // Strict: no second signature, and no weak key, passes for the first.
        let genuine = key.0.verify_strict(&bytes, &Signature::from_bytes(&signature));
        genuine.map_err(|_| ReceiptError::Signature)?;
        let question = about.question.hash().map_err(ReceiptError::Canonical)?;
        let bundles = canonical::hash(about.resolved).map_err(ReceiptError::Canonical)?;
        let same = [
            ("namespace", statement.namespace == *about.namespace),
            ("thread", statement.thread_id == *about.thread_id),
            ("question", statement.question_id == *about.question_id && statement.question_hash == question),
            ("set of bundles", statement.bundles_hash == bundles),
        ];
        if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
            return Err(ReceiptError::Elsewhere(what));
        }
        answer::check(about.question, &statement.answers).map_err(ReceiptError::Answer)?;
        Ok(&statement.answers)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::ResolvedBundle;

    struct Asked {
        namespace: Namespace,
        thread: ThreadId,
        id: QuestionId,
        question: Question,
        resolved: Resolved,
    }

    fn asked() -> Asked {
        let subagent = ResolvedBundle {
            name: "planner".parse().unwrap(),
            content_hash: ContentHash::of(b"s"),
            registered_at: Timestamp::from_millis(0),
        };
        let question =
            json!({"questions": [{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}]});
        Asked {
            namespace: "default".parse().unwrap(),
            thread: "t_1".parse().unwrap(),
            id: "q_1".parse().unwrap(),
            question: serde_json::from_value(question).unwrap(),
            resolved: Resolved { subagent, capabilities: Vec::new(), env: Vec::new() },
        }
    }

    impl Asked {
        fn about(&self) -> About<'_> {
            About {
                namespace: &self.namespace,
                thread_id: &self.thread,
                question_id: &self.id,
                question: &self.question,
                resolved: &self.resolved,
            }
        }

        fn statement(&self, answer: &str) -> Statement {
            Statement {
                namespace: self.namespace.clone(),
                thread_id: self.thread.clone(),
                question_id: self.id.clone(),
                question_hash: self.question.hash().unwrap(),
                bundles_hash: canonical::hash(&self.resolved).unwrap(),
                answers: serde_json::from_value(json!({"q1": answer})).unwrap(),
                by: Answerer::new("user:ann", "cli"),
                at: Timestamp::from_millis(1),
            }
        }
    }

    #[test]
    fn an_answer_counts_only_with_a_receipt_for_this_very_question() {
        let (asked, signer) = (asked(), ReceiptSigner::new(&[3; 32]));
        let key = signer.public_key();
        let receipt = signer.sign(asked.statement("A")).unwrap();
        let kept: Receipt = serde_json::from_value(serde_json::to_value(&receipt).unwrap()).unwrap();
        assert_eq!(kept.check(&key, asked.about()).unwrap(), &receipt.statement.answers);

        let other = ReceiptSigner::new(&[4; 32]).public_key();
        assert!(matches!(receipt.check(&other, asked.about()), Err(ReceiptError::Signature)));
        let mut forged = receipt.clone();
        forged.statement.answers = asked.statement("B").answers;
        assert!(matches!(forged.check(&key, asked.about()), Err(ReceiptError::Signature)));

        let another_thread = Asked { thread: "t_2".parse().unwrap(), ..self::asked() };
        let about_thread = receipt.check(&key, another_thread.about());
        assert!(matches!(about_thread, Err(ReceiptError::Elsewhere("thread"))));
        let another = json!({"questions": [{"question": "Which, then?"}]});
        let another = Asked { question: serde_json::from_value(another).unwrap(), ..self::asked() };
        assert!(matches!(receipt.check(&key, another.about()), Err(ReceiptError::Elsewhere("question"))));

        let no_option = signer.sign(asked.statement("C")).unwrap();
        assert!(matches!(no_option.check(&key, asked.about()), Err(ReceiptError::Answer(_))));
    }

    #[test]
    fn a_key_reads_back() {
        let key = ReceiptSigner::new(&[3; 32]).public_key();
        assert_eq!(key.to_string().parse(), Ok(key));
        assert!("00".parse::<ReceiptKey>().is_err());
    }
}

//! Why work was not brought.

use std::io;

use super::super::keeping::listed;

/// Why nothing was brought. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("there is nothing to apply: the agent changed no file")]
    Nothing,
    #[error("there is nothing to apply yet: the agent is still at work")]
    Running,
    #[error("the work has no place here that it was taken from")]
    NoPlace,
    #[error("the work was taken from what `{0}` holds, and not from files there")]
    NoTree(String),
    #[error("`{0}`, which the work was taken from, is not there any more, or no repository any more")]
    Gone(String),
    #[error("the work is not in a ref, so that there is nothing to make a branch of")]
    NoRef,
    #[error(
        "the work was taken from a directory that is no repository, so that there is nothing to commit to"
    )]
    NoRepository,
    #[error("the patch is refused: `{path}` {why}")]
    Refused { path: String, why: &'static str },
    #[error("{}", sights(acted_upon, leading_out))]
    OnSight {
        /// Files that tools act upon as soon as they are there.
        acted_upon: Vec<String>,
        /// Links that lead out of the tree.
        leading_out: Vec<String>,
    },
    #[error("{} changed here, too, and the two do not go together", listed(.0))]
    Conflicts(Vec<String>),
    #[error("{} changed here and {} not committed, so that no commit can be made of it", listed(.0), if .0.len() == 1 { "is" } else { "are" })]
    Dirty(Vec<String>),
    #[error("no commit of agora's can hold this work: it is of a submodule, or goes through a filter")]
    Apart,
    #[error("there is no git on the PATH, which applies it")]
    NoGit,
    #[error("{0} cannot merge it: that takes 2.38 or newer")]
    OldGit(String),
    #[error("there is a branch `{0}` already, or it is no name for one")]
    Branch(String),
    #[error("`{0}`, which the work is about, could not be read: {1}")]
    Unreadable(String, io::Error),
    #[error("interrupted")]
    Interrupted,
    #[error("it could not be applied: {0}")]
    Git(String),
}

fn sights(acted_upon: &[String], leading_out: &[String]) -> String {
    let acted_upon = (!acted_upon.is_empty())
        .then(|| format!("tools act upon {} as soon as they are there", listed(acted_upon)));
    let leading_out =
        (!leading_out.is_empty()).then(|| format!("links lead out of the tree: {}", listed(leading_out)));
    acted_upon.into_iter().chain(leading_out).collect::<Vec<_>>().join("; ")
}

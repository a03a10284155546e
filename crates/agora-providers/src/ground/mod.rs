//! Grounds: what an agent works on, taken from a directory or a repository of the user's, which is only ever read.
//!
//! ```text
//!  source ─▶ walk: one stat a path ─▶ compare with the newest base ─▶ little changed ─▶ a delta over that base
//!                     │                                            └▶ much, or none ─▶ a new base, unchanged files linked
//!                     └▶ pick: no secrets                              each repository in it: a `.git` of our own making
//! ```
//!
//! `index` and `base` are the cache, `copy` reads what may change meanwhile, `repository` makes what an agent's git sees, `settled`
//! its index where filters are, `commit` takes a commit instead of a working tree. `homecoming` brings `work` back as a ref, `apply` into the user's own tree, both with a
//! repository of our `own`; `keeping` knows how git keeps what is in a working tree. `local` is the provider, `moved` tells whether a
//! source is still what was taken.

mod apply;
mod base;
mod blob;
mod commit;
mod copy;
mod homecoming;
mod index;
mod keeping;
mod local;
mod moved;
mod own;
mod pick;
mod repository;
mod settled;
mod take;
mod walk;
mod work;

pub use apply::{AppliedWork, ApplyError, ApplyTo, OnSight};
pub use local::{LocalGrounds, objects_of};

//! What is the user's own stays theirs: keys of a home that is a repository, tokens, other agents' work, and copies that others could read.

use crate::support::{Mode, User, said};

const CANARY: &str = "canary-91d2";

#[test]
fn no_name_in_the_configuration_brings_a_token_along() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    let url = format!("https://ann:{CANARY}@example.org/x.git");
    for (key, value) in [
        ("branch.main.remote".to_owned(), url.as_str()),
        ("branch.main.merge".to_owned(), "refs/heads/main"),
        (format!("remote.{url}.url"), url.as_str()),
        (format!("submodule.{url}.url"), url.as_str()),
        (format!("branch.{url}.remote"), "origin"),
    ] {
        user.git(&dir, &["config", &key, value]);
    }
    let result =
        user.dispatch(&dir, &format!("cat .git/config | grep -c {CANARY}; git config branch.main.remote"));
    assert_eq!(said(&result), ["0", "https://example.org/x.git"]);
}

#[test]
fn other_agents_work_is_not_among_the_refs_also_when_they_are_packed() {
    let user = User::new(Mode::Layers);
    let dir = user.repository("main");
    user.git(&dir, &["tag", "-a", "-m", "one", "v1"]);
    user.dispatch(&dir, "echo w > w");
    user.git(&dir, &["pack-refs", "--all"]);
    assert!(user.git(&dir, &["for-each-ref"]).contains("refs/agora/"));
    let result = user.dispatch(
        &dir,
        "git for-each-ref --format='%(refname)'; git rev-parse --verify -q v1^{commit} | wc -l",
    );
    assert_eq!(said(&result), ["refs/heads/main", "refs/tags/v1", "1"]);
}

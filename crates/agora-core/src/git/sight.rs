//! What a tree should be given only by somebody who has seen it: files that tools act upon, and links that lead elsewhere.

/// Files and directories that tools act upon as soon as they are there: an editor, a shell, a package manager, a build on a server.
const ON_SIGHT: [&str; 38] = [
    ".envrc",
    ".vscode",
    ".idea",
    ".fleet",
    ".zed",
    ".claude",
    ".codex",
    ".cursor",
    ".mcp.json",
    ".devcontainer",
    ".husky",
    ".githooks",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    ".cargo/config",
    ".cargo/config.toml",
    ".yarnrc.yml",
    "mise.toml",
    ".mise.toml",
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".gitlab-ci.yml",
    ".circleci",
    ".buildkite",
    ".woodpecker",
    ".woodpecker.yml",
    ".drone.yml",
    ".travis.yml",
    "appveyor.yml",
    ".appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    ".gitattributes",
    ".gitmodules",
];

/// What comes to stand at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming<'a> {
    File,
    /// A symbolic link, with what it says.
    Link(&'a [u8]),
}

/// Tells whether a tool acts upon what comes to a path as soon as it is there. At any depth: projects lie in projects.
pub fn acts_on_sight(path: &[u8], coming: Coming<'_>) -> bool {
    let path = String::from_utf8_lossy(path).to_ascii_lowercase();
    let parts: Vec<&str> = path.split('/').collect();
    ON_SIGHT.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        let wanted: Vec<&str> = name.split('/').collect();
        let is_there = parts.windows(wanted.len()).any(|some| some == wanted);
        // A link gives everything below it a name: `.github` can bring workflows that are called something else here.
        let leads_there = || (1..wanted.len()).any(|some| parts.ends_with(&wanted[..some]));
        is_there || (matches!(coming, Coming::Link(_)) && leads_there())
    })
}

/// Tells whether a link leads out of the tree, or could: only steps up at its beginning can be followed without looking.
pub fn leads_out(path: &[u8], says: &[u8]) -> bool {
    let depth = path.iter().filter(|&&byte| byte == b'/').count();
    let parts = || says.split(|&byte| byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let up = parts().take_while(|part| *part == b"..").count();
    says.starts_with(b"/") || up > depth || parts().skip(up).any(|part| part == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_sight_is_known_at_any_depth_and_as_a_link() {
        for path in [
            ".envrc",
            "a/.vscode/tasks.json",
            ".github/workflows/ci.yml",
            ".Claude/settings.json",
            "x/.gitlab-ci.yml",
            "a/.cargo/config.toml",
            ".forgejo/workflows/x.yaml",
            "bitbucket-pipelines.yml",
            "jenkinsfile",
        ] {
            assert!(acts_on_sight(path.as_bytes(), Coming::File), "{path}");
        }
        for path in
            ["src/envrc", ".github/README.md", "x.vscode/a", ".vscode2", ".cargo/audit.toml", ".github"]
        {
            assert!(!acts_on_sight(path.as_bytes(), Coming::File), "{path}");
        }
        for path in [".vscode", "a/.claude", ".husky", ".github", "a/.cargo", ".github/workflows"] {
            assert!(acts_on_sight(path.as_bytes(), Coming::Link(b"cfg")), "{path}");
        }
        assert!(!acts_on_sight(b"workflows", Coming::Link(b"cfg")));
    }

    #[test]
    fn links_that_lead_out_are_known() {
        for (path, says) in [
            ("evil", "/etc/passwd"),
            ("evil", "../x"),
            ("a/evil", "../../x"),
            ("a/b/evil", "./.././../../x"),
            ("evil", "a/../../x"),
            // Where the first of them leads is not known here.
            ("evil", "a/b/../x"),
        ] {
            assert!(leads_out(path.as_bytes(), says.as_bytes()), "{path} -> {says}");
        }
        for (path, says) in [("l", "a.txt"), ("a/l", "../b"), ("a/b/l", "../../c/d"), ("l", "./a//b/")] {
            assert!(!leads_out(path.as_bytes(), says.as_bytes()), "{path} -> {says}");
        }
    }
}

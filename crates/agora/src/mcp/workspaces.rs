//! What an agent may be given to work on: only what lies in a directory that the user named.

use std::path::{Path, PathBuf};

use super::Trouble;

/// The directories that a person allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspaces(Vec<PathBuf>);

impl Workspaces {
    /// Takes those that the program was started with, then those of the settings. What is not there is not one.
    pub(crate) fn new(started_with: Vec<PathBuf>, settings: &[PathBuf]) -> Self {
        let all = started_with.iter().chain(settings);
        Self(all.filter_map(|dir| dir.canonicalize().ok()).filter(|dir| dir.is_dir()).collect())
    }

    /// Finds a directory by a path as a model writes it. Links are followed before it is compared: what a path means counts, not how
    /// it is spelt.
    pub(crate) fn find(&self, text: &str) -> Result<PathBuf, Trouble> {
        let Some(first) = self.0.first() else {
            return Err(Trouble::new("workspace-refused", "there is no workspace that agents may be given")
                .hint("your user names one: `agora mcp --workspace DIR`, or `[mcp] workspaces` in their `agora.toml`"));
        };
        let refused = || {
            let named: Vec<String> = self.0.iter().map(|dir| format!("`{}`", dir.display())).collect();
            Trouble::new(
                "workspace-refused",
                format!("`{text}` is not a directory inside a configured workspace"),
            )
            .hint(format!("there is {}", named.join(", ")))
        };
        if text.contains("://") || text.contains('\0') {
            return Err(refused());
        }
        let wanted = first.join(Path::new(text)).canonicalize().map_err(|_| refused())?;
        let inside = wanted.is_dir() && self.0.iter().any(|dir| wanted.starts_with(dir));
        if inside { Ok(wanted) } else { Err(refused()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_lies_inside_is_found() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for dir in ["one/src", "two", "outside"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::write(root.join("one/file"), "").unwrap();
        symlink(root.join("outside"), root.join("one/way-out")).unwrap();
        symlink(root.join("one/src"), root.join("one/way-in")).unwrap();
        let spaces = Workspaces::new(vec![root.join("one")], &[root.join("two"), root.join("gone")]);
        let found =
            |text: &str| spaces.find(text).ok().map(|dir| dir.strip_prefix(&root).unwrap().to_owned());
        assert_eq!(found("."), Some("one".into()));
        assert_eq!(found("src"), Some("one/src".into()));
        assert_eq!(found("way-in"), Some("one/src".into()));
        assert_eq!(found(root.join("two").to_str().unwrap()), Some("two".into()));
        for refused in [
            "..",
            "way-out",
            "../outside",
            "/",
            "/etc",
            "file",
            "gone",
            "https://example.com/x.git",
            "\0",
            "",
        ] {
            let expected = if refused.is_empty() { Some(PathBuf::from("one")) } else { None };
            assert_eq!(found(refused), expected, "{refused:?}");
        }
        assert_eq!(found("../one-more"), None);
    }

    #[test]
    fn without_a_workspace_there_is_none_to_be_had() {
        let refusal = Workspaces::default().find(".").unwrap_err();
        assert_eq!(refusal.code, "workspace-refused");
    }
}

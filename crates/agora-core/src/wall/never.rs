//! What of a home no agent ever sees: by its name, and by where it truly lies.

use std::path::{Component, Path, PathBuf};

/// What of a home is never visible inside, whatever is granted: keys, and the logins of programs. A `*` stands for any ending.
pub const NEVER: [&str; 21] = [
    ".ssh",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/git/credentials",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials*",
    ".docker",
    ".kube",
    ".gnupg",
    ".password-store",
    ".local/share/keyrings",
    ".config/op",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
];

/// How cargo's credentials end.
const ENDINGS: [&str; 2] = ["", ".toml"];

/// Tells whether a path, from the home on, is one of those that are never visible, or below one.
pub fn is_never_visible(below_home: &Path) -> bool {
    let parts: Vec<&str> = below_home
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    NEVER.iter().any(|never| {
        let never: Vec<&str> = never.split('/').collect();
        never.len() <= parts.len() && never.iter().zip(&parts).all(|(never, part)| same(never, part))
    })
}

/// Returns the names that a pattern stands for, as programs know them.
fn spelled_out(pattern: &str) -> Vec<String> {
    let endings = |start: &str| ENDINGS.iter().map(|end| format!("{start}{end}")).collect();
    pattern.strip_suffix('*').map_or_else(|| vec![pattern.to_owned()], endings)
}

fn same(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// What is never visible of one home. People keep such things elsewhere and link to them: what a link leads to is meant, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Never {
    /// The home by every name that it has.
    homes: Vec<PathBuf>,
    /// Where what is there truly lies, when that is not where its name says.
    elsewhere: Vec<PathBuf>,
}

impl Never {
    /// Looks at a home with the eyes of whoever has a disk: `real` returns where a path truly is.
    pub fn of(home: &Path, real: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let mut homes = vec![home.to_owned()];
        let real_home = real(home);
        homes.extend(real_home.clone().filter(|real| real != home));
        let never = Self { homes, elsewhere: Vec::new() };
        // What is not there yet will be where its directory truly is; for most that is the home.
        let in_its_directory = |path: &Path| {
            let dir = path.parent()?;
            let dir = if dir == home { real_home.clone() } else { real(dir) };
            Some(dir?.join(path.file_name()?))
        };
        let named = NEVER.iter().flat_map(|name| spelled_out(name)).map(|name| home.join(name));
        let elsewhere = named.filter_map(|path| real(&path).or_else(|| in_its_directory(&path)));
        // One that leads to the home itself, or above it, says nothing.
        let says =
            |path: &PathBuf| !never.names(path) && !never.homes.iter().any(|home| home.starts_with(path));
        Self { elsewhere: elsewhere.filter(says).collect(), ..never.clone() }
    }

    /// Tells whether a path is never visible.
    pub fn holds(&self, path: &Path) -> bool {
        self.names(path) || self.elsewhere.iter().any(|never| path.starts_with(never))
    }

    /// Returns what is never visible below a directory, whether it is there or not. A `*` at the end stands for any ending.
    pub fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let named = self.homes.iter().flat_map(|home| NEVER.iter().map(|name| home.join(name)));
        named.chain(self.elsewhere.iter().cloned()).filter(move |path| path.starts_with(dir) && path != dir)
    }

    /// Returns what is never visible in a copy of a directory, by paths in the copy: also what links of the copy itself lead to, which
    /// may be of another time.
    pub fn in_copy(&self, of: &Path, copy: &Path, real: impl Fn(&Path) -> Option<PathBuf>) -> Vec<PathBuf> {
        let from_top = |path: &PathBuf| path.strip_prefix(of).ok().map(|below| copy.join(below));
        let homes = self.homes.iter().filter_map(from_top);
        let linked = homes.flat_map(|home| Self::of(&home, &real).elsewhere);
        let linked = linked.filter(|path| path.starts_with(copy) && path != copy);
        self.below(of).filter_map(|path| from_top(&path)).chain(linked).collect()
    }

    fn names(&self, path: &Path) -> bool {
        self.homes.iter().any(|home| path.strip_prefix(home).is_ok_and(is_never_visible))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_visible_is_known_by_its_path() {
        for never in
            [".ssh", ".ssh/config", ".cargo/credentials", ".cargo/credentials.toml", ".config/gh/hosts.yml"]
        {
            assert!(is_never_visible(Path::new(never)), "{never}");
        }
        for other in ["", ".sshx", ".cargo", ".cargo/registry", ".config", ".config/ghostty", "x/.ssh"] {
            assert!(!is_never_visible(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn what_a_link_leads_to_is_never_visible_either() {
        let links = [
            ("/home/ann", "/data/ann"),
            ("/home/ann/.ssh", "/data/ann/dotfiles/ssh"),
            ("/home/ann/.cargo/credentials.toml", "/data/ann/dotfiles/cargo"),
            ("/home/ann/.aws", "/data/ann/.aws"),
            ("/home/ann/.kube", "/data"),
            ("/home/ann/.config", "/data/ann/dotfiles/config"),
        ];
        let real = |path: &Path| {
            links.iter().find(|(link, _)| Path::new(link) == path).map(|(_, real)| PathBuf::from(real))
        };
        let never = Never::of(Path::new("/home/ann"), real);
        for path in [
            "/home/ann/.ssh/id",
            "/data/ann/.kube",
            "/data/ann/dotfiles/ssh/id",
            "/data/ann/dotfiles/config/gh",
        ] {
            assert!(never.holds(Path::new(path)), "{path}");
        }
        for path in ["/data/ann", "/data/ann/dotfiles", "/data/ann/.cargo/bin", "/data/other"] {
            assert!(!never.holds(Path::new(path)), "{path}");
        }
        // A commit of long ago had another link.
        let then = |path: &Path| (path == Path::new("/copy/.ssh")).then(|| "/copy/keys".into());
        let copy = never.in_copy(Path::new("/data/ann"), Path::new("/copy"), then);
        for path in ["/copy/.ssh", "/copy/.aws", "/copy/dotfiles/ssh", "/copy/keys"] {
            assert!(copy.contains(&path.into()), "{path}: {copy:?}");
        }
        let below: Vec<PathBuf> = never.below(Path::new("/data/ann/dotfiles")).collect();
        assert!(below.contains(&"/data/ann/dotfiles/ssh".into()) && below.len() == 6, "{below:?}");
    }
}

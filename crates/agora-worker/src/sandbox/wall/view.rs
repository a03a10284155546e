//! What is visible inside: decided by the worker, once, before anything behind the wall has run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use agora_core::sentinel;
use agora_core::wall::{
    AGENT_ID, Access, Built, Isolation, Level, Network, Never, Tools, Visible, Wish, in_home,
};
use rustix::process::geteuid;

use super::tools::{self, Tool};
use super::trial::Trial;
use super::{Bind, Plan, Refused, has_id};
use crate::sandbox::probe::{explain, leaves_open};

/// The system's own, read-only, as far as it is there. Its secrets are left to the modes of its files.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/var/lib/ca-certificates",
    "/sys/devices/system/cpu",
];
/// Where a room has what is the dispatch's own.
const WORKSPACE: &str = "/workspace";
const TMP: &str = "/tmp";
const AIDS: &str = "/run/agora";
/// For a user whose home is no place for one.
const HOME: &str = "/home/agent";
/// A plan goes to the guard as one argument, which has 128 KiB: parts beyond so many are not shown.
const MOST_BINDS: usize = 600;
/// What older programs write to.
const LINKS: [(&str, &str); 2] = [("/var/tmp", TMP), ("/var/run", "/run")];

/// What a view is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) wish: &'a Wish,
    pub(crate) trial: &'a Trial,
    /// The home of whoever runs the worker, and their path.
    pub(crate) home: Option<&'a Path>,
    pub(crate) path: Option<&'a OsStr>,
    /// The dispatch's own directories.
    pub(crate) own: &'a Inside,
    /// Whether the worker puts something down for programs to read.
    pub(crate) has_aids: bool,
    /// What the workspace's repository reads objects from: shown, and never written.
    pub(crate) lent: &'a [PathBuf],
    /// What nothing may bring in: agora's home, or as much of it as is known.
    pub(crate) closed: &'a Path,
}

/// Where the dispatch's own directories are for a program: the one way to tell it a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) work: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) tmp: PathBuf,
    pub(crate) aids: PathBuf,
}

impl Inside {
    /// Returns where a question is written.
    pub(crate) fn sentinel(&self) -> PathBuf {
        self.work.join(sentinel::PATH)
    }
}

/// A wall that can be built, and how things look from behind it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// `None`: no wall.
    pub(crate) plan: Option<Plan>,
    pub(crate) inside: Inside,
    pub(crate) built: Built,
    /// What the private home links to, where its tools cannot be mounted into it.
    pub(crate) home_links: Vec<(PathBuf, PathBuf)>,
}

/// Says why no wall can be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WallError {
    #[error(
        "`isolation = \"strict\"` wants namespaces, Landlock and seccomp, and this machine has not all of them: {0}"
    )]
    Strict(String),
    #[error("this machine has neither namespaces nor Landlock to build a wall of: {0}")]
    Nothing(String),
    #[error("`network = \"none\"` needs namespaces, and there are none here: {0}")]
    Network(String),
    #[error("the agent, which does not run as root, could not get into `{}`", .0.display())]
    Closed(PathBuf),
}

impl View {
    /// Decides for the strongest wall that is asked for and can be built.
    pub(crate) fn choose(ground: &Ground<'_>) -> Result<Self, WallError> {
        let Ground { wish, trial, own, .. } = ground;
        if wish.isolation == Isolation::None {
            let (inside, built) = ((*own).clone(), Built { container: trial.contained, ..Built::none() });
            return Ok(Self { plan: None, inside, built, home_links: Vec::new() });
        }
        let because = trial.namespaces.err().map(|Refused { part, error }| explain(part, error));
        let because = because.filter(|_| !trial.contained);
        let level = match (&because, trial.landlock) {
            // The container has the namespaces and the network.
            (_, Some(_)) if trial.contained => Level::Landlock,
            (_, None) if trial.contained => {
                let why = "the container's kernel has no Landlock, or it is switched off".to_owned();
                return Err(WallError::Nothing(why));
            }
            (None, Some(_)) => Level::Namespaces,
            (Some(why), _) if wish.isolation == Isolation::Strict => {
                return Err(WallError::Strict(why.clone()));
            }
            (None, None) if wish.isolation == Isolation::Strict => {
                return Err(WallError::Strict(
                    "the kernel has no Landlock, or it is switched off".to_owned(),
                ));
            }
            (Some(why), _) if wish.network == Network::None => return Err(WallError::Network(why.clone())),
            (None, None) => Level::Namespaces,
            (Some(_), Some(_)) => Level::Landlock,
            (Some(why), None) => return Err(WallError::Nothing(why.clone())),
        };
        let agent = Some(AGENT_ID).filter(|id| geteuid().is_root() && has_id(*id));
        let mut sight = Sight::new(ground, level);
        sight.look();
        let mut leaves_open = leaves_open(level, trial.landlock, wish.network);
        leaves_open.extend(sight.later());
        let Sight { mut binds, links, inside, hidden, home_links, missing, .. } = sight;
        binds.sort_by_key(|bind| bind.to.components().count());
        let visible =
            binds.iter().map(|bind| Visible { path: bind.to.display().to_string(), access: bind.access });
        let built = Built {
            level,
            landlock: trial.landlock,
            seccomp: true,
            network: wish.network,
            uid: Some(agent.unwrap_or_else(|| geteuid().as_raw())),
            visible: visible.collect(),
            covered: hidden.iter().map(|path| path.display().to_string()).collect(),
            missing,
            leaves_open,
            because,
            container: trial.contained,
        };
        let plan = Plan {
            level,
            network: wish.network,
            agent,
            landlock: trial.landlock,
            apart: level == Level::Namespaces || trial.contained,
            binds,
            links,
            hidden,
        };
        Ok(Self { plan: Some(plan), inside, built, home_links })
    }
}

/// A view in the making.
struct Sight<'a> {
    ground: &'a Ground<'a>,
    level: Level,
    /// The home as it is written, and the true one.
    home: Tool,
    /// What of it nobody sees.
    never: Never,
    closed: PathBuf,
    inside: Inside,
    binds: Vec<Bind>,
    links: Vec<(PathBuf, PathBuf)>,
    hidden: Vec<PathBuf>,
    home_links: Vec<(PathBuf, PathBuf)>,
    missing: Vec<String>,
}

impl<'a> Sight<'a> {
    fn new(ground: &'a Ground<'a>, level: Level) -> Self {
        let home = ground.home.filter(|home| is_a_home(home)).unwrap_or(Path::new(HOME)).to_owned();
        let home = Tool::at(home.clone()).unwrap_or(Tool { written: home.clone(), real: home });
        let inside = match level {
            Level::Namespaces => Inside {
                work: WORKSPACE.into(),
                home: home.written.clone(),
                tmp: TMP.into(),
                aids: AIDS.into(),
            },
            Level::Landlock | Level::None => ground.own.clone(),
        };
        let never = Never::of(&home.written, tools::real);
        let closed = fs::canonicalize(ground.closed).unwrap_or_else(|_| ground.closed.to_owned());
        let (binds, links, hidden) = (Vec::new(), Vec::new(), Vec::new());
        let (home_links, missing) = (Vec::new(), Vec::new());
        Self { ground, level, home, never, closed, inside, binds, links, hidden, home_links, missing }
    }

    fn look(&mut self) {
        let (own, inside) = (self.ground.own.clone(), self.inside.clone());
        let aids = self.ground.has_aids.then_some((own.aids, inside.aids, Access::Read));
        let written = [
            (own.work, inside.work, Access::Write),
            (own.home, inside.home, Access::Write),
            (own.tmp, inside.tmp, Access::Write),
        ];
        for (from, to, access) in written.into_iter().chain(aids) {
            self.binds.push(Bind { from, to, access, essential: true });
        }
        // Wherever they are, also in agora's home: nothing but a repository's objects is in there.
        for dir in self.ground.lent {
            let (from, to) = (dir.clone(), dir.clone());
            self.binds.push(Bind { from, to, access: Access::Read, essential: false });
        }
        for dir in SYSTEM {
            self.system(Path::new(dir));
        }
        if let Some(resolver) = Tool::at("/etc/resolv.conf".into()) {
            self.add(&resolver.real, &resolver.real, Access::Read);
        }
        match &self.ground.wish.tools {
            Tools::Auto => {
                for tool in tools::known(&self.home.written) {
                    self.tool(&tool);
                }
                let seen = |path: &Path| self.shows(path);
                for tool in tools::on_path(self.ground.path, &self.home.real, &seen) {
                    self.tool(&tool);
                }
            }
            Tools::Paths(paths) => {
                let home = self.home.written.clone();
                for tool in paths.iter().filter_map(|path| Tool::at(in_home(path, &home))) {
                    self.tool(&tool);
                }
            }
            Tools::None => {}
        }
        for grant in &self.ground.wish.grants {
            match Tool::at(grant.path(&self.home.written)) {
                Some(tool) => self.add(&tool.real, &tool.written, grant.access),
                None => self.missing.push(grant.to_string()),
            }
        }
        if self.level == Level::Namespaces {
            self.links.extend(LINKS.map(|(link, target)| (link.into(), target.into())));
        }
    }

    /// Shows a directory of the system, or the link that it is.
    fn system(&mut self, dir: &Path) {
        let Some(tool) = Tool::at(dir.to_owned()) else { return };
        if tool.real == dir {
            self.add(dir, dir, Access::Read);
        } else if self.level == Level::Namespaces {
            let target = fs::read_link(dir).unwrap_or_else(|_| tool.real.clone());
            self.links.push((dir.to_owned(), target));
        }
    }

    /// Shows a tool, unless it would show more than tools.
    fn tool(&mut self, tool: &Tool) {
        let holds = |path: &Path| path.starts_with(&tool.real);
        if holds(&self.home.real)
            || holds(&self.home.written)
            || holds(&self.closed)
            || tool.real.parent().is_none()
        {
            return;
        }
        self.add(&tool.real, &tool.written, Access::Read);
    }

    fn add(&mut self, real: &Path, written: &Path, access: Access) {
        if self.is_out_of_sight(real) || self.is_out_of_sight(written) {
            return;
        }
        // Without mounts the home is another one, which leads to the tools by links.
        if self.level == Level::Landlock
            && let Ok(below) = written.strip_prefix(&self.home.written)
            && !below.as_os_str().is_empty()
        {
            self.home_links.push((below.to_owned(), real.to_owned()));
        }
        if !self.is_shown_by_parts(real, access) {
            return self.place(real, written, access);
        }
        for part in self.parts(real, access) {
            if let Ok(below) = part.written.strip_prefix(real)
                && self.binds.len() < MOST_BINDS
            {
                self.place(&part.real, &written.join(below), access);
            }
        }
    }

    /// Gives something its place inside, and covers what of it nobody sees.
    fn place(&mut self, real: &Path, written: &Path, access: Access) {
        if self.level == Level::Landlock {
            return self.bind(real, real, access);
        }
        self.bind(real, written, access);
        if real != written {
            self.bind(real, real, access);
        }
        let there = |path: &Path| path.symlink_metadata().is_ok();
        let never = self.never.below(real).flat_map(|never| spelled_out(&never));
        let closed = Some(self.closed.clone()).filter(|closed| closed.starts_with(real));
        let never: Vec<PathBuf> = never.chain(closed).filter(|never| there(never)).collect();
        for never in never {
            let Ok(below) = never.strip_prefix(real) else { continue };
            for path in [written.join(below), never.clone()] {
                if !self.hidden.contains(&path) {
                    self.hidden.push(path);
                }
            }
        }
    }

    fn bind(&mut self, from: &Path, to: &Path, access: Access) {
        let covers = |bind: &Bind| {
            to.strip_prefix(&bind.to).is_ok_and(|below| bind.from.join(below) == from)
                && bind.access >= access
        };
        if !self.binds.iter().any(covers) {
            self.binds.push(Bind { from: from.to_owned(), to: to.to_owned(), access, essential: false });
        }
    }

    /// Says where a key would show that comes to be while the agent runs. What may be written to is shown whole, and only what is there can
    /// be covered: a cover goes when somebody outside puts another file in its place.
    fn later(&self) -> Option<String> {
        let could_hold = |bind: &&Bind| {
            let is_granted = bind.access == Access::Write && !bind.essential;
            is_granted && self.level == Level::Namespaces && self.never.below(&bind.from).next().is_some()
        };
        let dirs = self.binds.iter().filter(could_hold).map(|bind| format!("`{}`", bind.to.display()));
        let dirs: Vec<String> = dirs.collect();
        let said = format!("keys and logins that come to be in {} while it runs", dirs.join(", "));
        (!dirs.is_empty()).then_some(said)
    }

    /// Tells whether a directory is shown by what is in it now: so nothing shows that comes to be in it later, such as a key. Without
    /// mounts nothing can be covered either. A directory that is to be written to is shown whole, unless it holds the home.
    fn is_shown_by_parts(&self, dir: &Path, access: Access) -> bool {
        // What lies in the system's directories is left to the modes of its files.
        let is_system = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
        let never = || self.never.below(dir).any(|never| !is_system(&never));
        match self.level {
            Level::Landlock => self.closed.starts_with(dir) || never(),
            Level::Namespaces | Level::None => {
                (access == Access::Read || self.home.real.starts_with(dir)) && never()
            }
        }
    }

    /// Returns what a directory holds, down to where nothing of it is out of sight. A link counts as what it leads to in there.
    fn parts(&self, dir: &Path, access: Access) -> Vec<Tool> {
        let (mut parts, mut waiting) = (Vec::new(), vec![dir.to_owned()]);
        while let Some(path) = waiting.pop() {
            let Some(tool) = Tool::at(path) else { continue };
            let is_link = tool.written.is_symlink();
            if is_link && (!tool.real.starts_with(dir) || self.is_out_of_sight(&tool.real)) {
                continue;
            }
            match (self.is_shown_by_parts(&tool.real, access), is_link) {
                (false, _) => parts.push(tool),
                // Its parts are shown where they are.
                (true, true) => {}
                (true, false) => {
                    let entries = fs::read_dir(&tool.real).into_iter().flatten().filter_map(Result::ok);
                    waiting
                        .extend(entries.map(|entry| entry.path()).filter(|path| !self.is_out_of_sight(path)));
                }
            }
        }
        parts
    }

    fn shows(&self, path: &Path) -> bool {
        self.binds.iter().any(|bind| path.starts_with(&bind.from) && !bind.essential)
    }

    /// Tells whether nothing may bring a path in.
    fn is_out_of_sight(&self, path: &Path) -> bool {
        self.never.holds(path) || path.starts_with(&self.closed)
    }
}

/// Returns the paths that a pattern with a `*` at its end stands for.
fn spelled_out(pattern: &Path) -> Vec<PathBuf> {
    let name = pattern.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let Some(start) = name.strip_suffix('*') else {
        return vec![pattern.to_owned()];
    };
    let entries = pattern.parent().and_then(|parent| fs::read_dir(parent).ok());
    let names = entries.into_iter().flatten().filter_map(Result::ok);
    names
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(start)))
        .map(|entry| entry.path())
        .collect()
}

/// Tells whether a private home can be where this one is: not above or below what the room has for others.
fn is_a_home(home: &Path) -> bool {
    let others = SYSTEM.iter().chain(&[WORKSPACE, AIDS, "/proc", "/dev"]).map(Path::new);
    home.is_absolute()
        && home.parent().is_some()
        && home != Path::new(TMP)
        && others.into_iter().all(|other| !other.starts_with(home) && !home.starts_with(other))
}

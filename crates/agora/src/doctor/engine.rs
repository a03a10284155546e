//! Docker and Podman: which of their usual sockets answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ping::{self, Answer, Engine, ping};
use super::{Finding, Status, Surroundings};

/// What comes next, where there is a daemon.
const NEXT: &str = "; `agora image build` makes what workers run in there";

/// Where to ask, by whoever is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    /// The usual places.
    Sockets(Vec<PathBuf>),
    /// What `DOCKER_HOST` names, and nothing else then, as for every program that speaks to Docker.
    Named(PathBuf),
    /// A `DOCKER_HOST` that would mean talking to another machine.
    Remote(String),
}

pub(super) fn examine(surroundings: &Surroundings) -> Vec<Finding> {
    let docker = look("docker", &docker_address(surroundings), ping::DEADLINE);
    let podman = look("podman", &podman_address(surroundings), ping::DEADLINE);
    one_is_enough(docker, podman)
}

/// Whoever has one engine does not miss the other.
fn one_is_enough(mut docker: Finding, mut podman: Finding) -> Vec<Finding> {
    let soften = |finding: &mut Finding, other: &str| {
        if finding.status == Status::Missing {
            finding.status = Status::Note;
            finding.detail = format!("no socket was found, and none is needed beside {other}");
            finding.fix = None;
        }
    };
    if docker.status == Status::Ok {
        soften(&mut podman, "docker");
    } else if podman.status == Status::Ok {
        soften(&mut docker, "podman");
    }
    vec![docker, podman]
}

fn docker_address(surroundings: &Surroundings) -> Address {
    if let Some(host) = surroundings.docker_host.as_deref().filter(|host| !host.is_empty()) {
        return match host.strip_prefix("unix://") {
            Some(path) => Address::Named(path.into()),
            None => Address::Remote(scheme(host).to_owned()),
        };
    }
    let runtime = surroundings.xdg_runtime_dir.iter().map(|dir| dir.join("docker.sock"));
    // Docker Desktop's places, on Linux and on macOS.
    let desktop = surroundings.user_home.iter().flat_map(|home| {
        [".docker/desktop/docker.sock", ".docker/run/docker.sock"].map(|socket| home.join(socket))
    });
    Address::Sockets(
        std::iter::once(PathBuf::from("/var/run/docker.sock")).chain(runtime).chain(desktop).collect(),
    )
}

/// Only the scheme is shown: an address may carry a user's name or more.
fn scheme(host: &str) -> &str {
    host.split_once("://").map_or("another kind of address", |(scheme, _)| scheme)
}

fn podman_address(surroundings: &Surroundings) -> Address {
    let runtime = surroundings.xdg_runtime_dir.iter().map(|dir| dir.join("podman/podman.sock"));
    Address::Sockets(runtime.chain([PathBuf::from("/run/podman/podman.sock")]).collect())
}

fn look(topic: &'static str, address: &Address, deadline: Duration) -> Finding {
    match address {
        Address::Remote(scheme) => {
            let detail = format!("`DOCKER_HOST` is set ({scheme}), and was not asked");
            Finding { topic, status: Status::Note, detail, fix: None }
        }
        Address::Named(socket) => {
            let finding = describe(topic, socket, ping(socket, deadline));
            if finding.status == Status::Ok {
                return finding;
            }
            let fix = format!("{}, or unset `DOCKER_HOST`", finding.fix.as_deref().unwrap_or("start it"));
            let detail = format!("`DOCKER_HOST`: {}", finding.detail);
            Finding::bad(topic, Status::Broken, detail, fix)
        }
        Address::Sockets(sockets) => {
            // The first that serves, else the one that says most about what is wrong.
            let mut best: Option<(&PathBuf, Answer)> = None;
            for socket in sockets {
                let answer = ping(socket, deadline);
                if best.as_ref().is_none_or(|(_, known)| answer > *known) {
                    let serves = matches!(answer, Answer::Serves { .. });
                    best = Some((socket, answer));
                    if serves {
                        break;
                    }
                }
            }
            match best {
                Some((_, Answer::NoSocket)) | None => absent(topic),
                Some((socket, answer)) => describe(topic, socket, answer),
            }
        }
    }
}

fn absent(topic: &'static str) -> Finding {
    let detail = "no socket was found; only targets that run in containers need one";
    let fix = match topic {
        "podman" => "install Podman, then `systemctl --user enable --now podman.socket`",
        _ => "install Docker, https://docs.docker.com/engine/install",
    };
    Finding::bad(topic, Status::Missing, detail, fix)
}

fn describe(topic: &'static str, socket: &Path, answer: Answer) -> Finding {
    let shown = socket.display();
    let podman = topic == "podman";
    match answer {
        Answer::Serves { engine: Engine::Podman, api_version } if !podman => {
            Finding::ok(topic, format!("Podman answers at `{shown}` (API {api_version}){NEXT}"))
        }
        Answer::Serves { api_version, .. } => {
            Finding::ok(topic, format!("answers at `{shown}` (API {api_version}){NEXT}"))
        }
        Answer::NoSocket => {
            Finding::bad(topic, Status::Missing, format!("`{shown}` does not exist"), "start it")
        }
        Answer::NobodyServes => {
            let fix =
                if podman { "systemctl --user start podman.socket" } else { "sudo systemctl start docker" };
            Finding::bad(topic, Status::Broken, format!("nobody serves `{shown}`"), fix)
        }
        Answer::Denied => {
            let fix = if podman {
                "systemctl --user enable --now podman.socket"
            } else {
                "sudo usermod -aG docker \"$USER\", then log in again"
            };
            Finding::bad(topic, Status::Broken, format!("`{shown}` may not be used by you"), fix)
        }
        Answer::Silent => {
            let detail = format!("`{shown}` does not answer");
            let fix =
                if podman { "systemctl --user restart podman" } else { "sudo systemctl restart docker" };
            Finding::bad(topic, Status::Broken, detail, fix)
        }
        Answer::NotAnEngine(what) => {
            let fix = "see what listens there, and give the right one by `DOCKER_HOST`";
            Finding::bad(topic, Status::Broken, format!("`{shown}` is not a container engine: {what}"), fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::ping::tests::{DOCKER, place, serving};
    use super::super::tests::surroundings;
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn the_first_socket_that_serves_wins() {
        let (_stale_dir, stale) = place();
        drop(UnixListener::bind(&stale).unwrap());
        let (_dir, served) = serving(DOCKER);
        let finding = look("docker", &Address::Sockets(vec![stale, served.clone()]), ping::DEADLINE);
        let detail = format!("answers at `{}` (API 1.41){NEXT}", served.display());
        assert_eq!(finding, Finding::ok("docker", detail));
    }

    #[test]
    fn among_those_that_do_not_serve_the_most_telling_is_shown() {
        let (_absent_dir, absent) = place();
        let (_stale_dir, stale) = place();
        drop(UnixListener::bind(&stale).unwrap());
        let (_mute_dir, mute) = place();
        let _listener = UnixListener::bind(&mute).unwrap();
        let detail = |sockets: &[&PathBuf]| {
            let sockets = sockets.iter().map(|socket| (*socket).clone()).collect();
            let finding = look("docker", &Address::Sockets(sockets), SHORT);
            (finding.status, finding.detail)
        };
        assert_eq!(detail(&[&absent]).0, Status::Missing);
        assert_eq!(
            detail(&[&absent, &stale]),
            (Status::Broken, format!("nobody serves `{}`", stale.display()))
        );
        assert_eq!(
            detail(&[&mute, &stale]),
            (Status::Broken, format!("`{}` does not answer", mute.display()))
        );
        let denied = describe("docker", &mute, Answer::Denied);
        assert!(denied.fix.unwrap().contains("usermod -aG docker"));
    }

    #[test]
    fn docker_host_is_the_only_word() {
        let host = |host: &str| docker_address(&surroundings(|here| here.docker_host = Some(host.into())));
        assert_eq!(host("unix:///x/y.sock"), Address::Named("/x/y.sock".into()));
        assert_eq!(host("tcp://user:secret@10.0.0.1:2376"), Address::Remote("tcp".into()));
        assert!(matches!(host(""), Address::Sockets(_)));
        let finding = look("docker", &Address::Named("/nowhere/y.sock".into()), SHORT);
        assert_eq!(
            (finding.status, finding.fix.as_deref()),
            (Status::Broken, Some("start it, or unset `DOCKER_HOST`"))
        );
        assert_eq!(look("docker", &host("tcp://a:1"), SHORT).status, Status::Note);
    }

    #[test]
    fn the_usual_places_are_asked() {
        let here = surroundings(|here| {
            here.xdg_runtime_dir = Some("/run/user/7".into());
            here.user_home = Some("/home/ann".into());
        });
        let sockets = |paths: &[&str]| Address::Sockets(paths.iter().map(PathBuf::from).collect());
        let docker = ["/var/run/docker.sock", "/run/user/7/docker.sock"];
        let desktop = ["/home/ann/.docker/desktop/docker.sock", "/home/ann/.docker/run/docker.sock"];
        assert_eq!(docker_address(&here), sockets(&[docker, desktop].concat()));
        let podman = ["/run/user/7/podman/podman.sock", "/run/podman/podman.sock"];
        assert_eq!(podman_address(&here), sockets(&podman));
    }

    #[test]
    fn one_engine_is_enough() {
        let found = one_is_enough(Finding::ok("docker", "answers"), absent("podman"));
        assert_eq!((found[1].status, &found[1].fix), (Status::Note, &None));
        let found = one_is_enough(absent("docker"), absent("podman"));
        assert_eq!(found[1].status, Status::Missing);
    }
}

//! The wall that can be built here, and what would make it stronger.

use std::path::Path;

use agora_worker::sandbox::probe::{Cause, Cgroup, Landlock, Level, Probe, ProbeError, Support, probe};

use super::{Finding, Status, Surroundings, in_one_line};

const TOPIC: &str = "sandbox";

pub(super) fn examine(surroundings: &Surroundings) -> Vec<Finding> {
    findings(&probe(&surroundings.executable), &surroundings.executable)
}

fn findings(probed: &Result<Probe, ProbeError>, executable: &Path) -> Vec<Finding> {
    match probed {
        Ok(probe) => {
            [wall(probe, executable), overlay(probe), cgroup(&probe.cgroup)].into_iter().flatten().collect()
        }
        Err(error) => {
            let fix = "run `agora worker probe` and see what it says";
            vec![Finding::bad(TOPIC, Status::Broken, in_one_line(error), fix)]
        }
    }
}

fn wall(probe: &Probe, executable: &Path) -> Option<Finding> {
    let finding = match (probe.level, &probe.landlock) {
        (Level::Namespaces, Landlock::Yes { abi }) => {
            Finding::ok(TOPIC, format!("namespaces, Landlock (ABI {abi}) and seccomp"))
        }
        (Level::Landlock, Landlock::Yes { abi }) => {
            let detail = format!(
                "only Landlock (ABI {abi}) and seccomp{}; no namespaces: {}",
                left_open(&probe.landlock),
                why(&probe.namespaces)
            );
            with_fix(Status::Note, detail, remedy(&probe.namespaces, executable))
        }
        (Level::None, _) | (_, Landlock::No(_)) => missing_parts(probe, executable),
    };
    Some(finding)
}

/// Without Landlock or seccomp there is no wall; the first part that is refused and can be mended gives the fix.
fn missing_parts(probe: &Probe, executable: &Path) -> Finding {
    let landlock = match &probe.landlock {
        Landlock::Yes { .. } => Support::Yes,
        Landlock::No(refusal) => Support::No(refusal.clone()),
    };
    let parts = [&landlock, &probe.seccomp, &probe.namespaces];
    let mut refused: Vec<&str> =
        parts.iter().filter(|part| ***part != Support::Yes).map(|part| why(part)).collect();
    // Where nothing could be tried, all have the same reason.
    refused.dedup();
    let detail = format!("no wall can be built: {}", refused.join("; "));
    let fix = parts.iter().find_map(|part| remedy(part, executable));
    let instead = || Some("use a target with `compute = \"docker\"`".to_owned());
    // Elsewhere than on Linux this is how it should be, and `local` means a container.
    let by_nature = matches!(&landlock, Support::No(refusal) if refusal.cause == Cause::NotLinux);
    let status = if by_nature { Status::Note } else { Status::Broken };
    with_fix(status, detail, fix.or_else(instead))
}

fn with_fix(status: Status, detail: String, fix: Option<String>) -> Finding {
    Finding { topic: TOPIC, status, detail, fix }
}

fn left_open(landlock: &Landlock) -> String {
    match landlock.leaves_open().as_slice() {
        [] => String::new(),
        open => format!(", which do not stop {}", open.join(", ")),
    }
}

fn why(support: &Support) -> &str {
    match support {
        Support::Yes => "works",
        Support::No(refusal) => &refusal.why,
    }
}

fn remedy(support: &Support, executable: &Path) -> Option<String> {
    let Support::No(refusal) = support else { return None };
    match refusal.cause {
        Cause::UsernsCloneSysctl => Some(sysctl("kernel.unprivileged_userns_clone=1")),
        // A number that distributions use; the kernel's own default follows the memory size.
        Cause::UserNamespaceLimit => Some(sysctl("user.max_user_namespaces=15000")),
        Cause::AppArmor => Some(apparmor_profile(executable)),
        // Whoever lifts only one of them meets the other next.
        Cause::Filtered | Cause::ProcMasked => Some(
            "run agora outside the container, or start that with \
             `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"
                .into(),
        ),
        Cause::KernelLacks => {
            Some("use a kernel that has it (Landlock since 5.13; user namespaces are a build option)".into())
        }
        Cause::DisabledAtBoot => {
            Some("add `landlock` to the list in the kernel's boot parameter `lsm=`, and restart".into())
        }
        Cause::NotLinux => Some("install Docker or Podman: `local` then means a container".into()),
        Cause::SeveralThreads | Cause::NeedsNamespaces | Cause::Other => None,
    }
}

/// Now, and after the next start of the machine.
fn sysctl(setting: &str) -> String {
    format!("echo {setting} | sudo tee /etc/sysctl.d/60-agora.conf && sudo sysctl --system")
}

/// The profile that Ubuntu means for programs that may use user namespaces: it names the program and confines
/// nothing. What agora starts inherits it.
fn apparmor_profile(executable: &Path) -> String {
    let path = apparmor_path(executable);
    format!(
        "sudo tee /etc/apparmor.d/agora >/dev/null <<'PROFILE'\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile agora \"{path}\" flags=(unconfined) {{\n\
         \x20 userns,\n\
         \x20 include if exists <local/agora>\n\
         }}\n\
         PROFILE\n\
         sudo apparmor_parser -r /etc/apparmor.d/agora"
    )
}

/// A path in a profile is a pattern, so what is special in one is escaped.
fn apparmor_path(executable: &Path) -> String {
    let mut escaped = String::new();
    for character in executable.to_string_lossy().chars() {
        if r#"\*?[]{}^""#.contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Says nothing when there are no namespaces: that finding stands above, with the same fix.
fn overlay(probe: &Probe) -> Option<Finding> {
    match &probe.overlayfs_in_userns {
        Support::Yes => Some(Finding::ok("overlay", "workspaces are layered over their base (overlayfs)")),
        Support::No(refusal) if matches!(refusal.cause, Cause::NeedsNamespaces | Cause::NotLinux) => None,
        Support::No(refusal) => {
            let detail = format!("workspaces are copied: {}", refusal.why);
            Some(Finding { topic: "overlay", status: Status::Note, detail, fix: None })
        }
    }
}

fn cgroup(cgroup: &Cgroup) -> Option<Finding> {
    let finding = match cgroup {
        Cgroup::V2 { parent } => {
            let detail = format!("memory and processes can be limited (v2, below `{}`)", parent.display());
            Finding::ok("cgroup", detail)
        }
        Cgroup::V1 { memory, pids } => {
            let (memory, pids) = (memory.display(), pids.display());
            let detail = format!("memory and processes can be limited (v1, below `{memory}` and `{pids}`)");
            Finding::ok("cgroup", detail)
        }
        Cgroup::No { why } => {
            let detail = format!(
                "memory and processes are limited by counting, some times a second, and not by the kernel: {why}"
            );
            let fix = "start agora where it owns its group: `systemd-run --user --scope agora …`";
            Finding::bad("cgroup", Status::Note, detail, fix)
        }
    };
    Some(finding)
}

#[cfg(test)]
mod tests {
    use agora_worker::sandbox::probe::Refusal;

    use super::*;

    fn no(cause: Cause) -> Support {
        Support::No(Refusal { cause, why: "it is refused".into() })
    }

    fn full() -> Probe {
        Probe {
            namespaces: Support::Yes,
            landlock: Landlock::Yes { abi: 7 },
            seccomp: Support::Yes,
            cgroup: Cgroup::V2 { parent: "/g".into() },
            overlayfs_in_userns: Support::Yes,
            level: Level::Namespaces,
        }
    }

    fn examined(probe: Probe) -> Vec<Finding> {
        findings(&Ok(probe), Path::new("/opt/my agora/[x]/agora"))
    }

    #[test]
    fn a_full_wall_is_three_short_lines() {
        assert_eq!(
            examined(full()),
            [
                Finding::ok("sandbox", "namespaces, Landlock (ABI 7) and seccomp"),
                Finding::ok("overlay", "workspaces are layered over their base (overlayfs)"),
                Finding::ok("cgroup", "memory and processes can be limited (v2, below `/g`)"),
            ]
        );
    }

    #[test]
    fn ubuntu_gets_the_profile_that_mends_it() {
        let probe = Probe {
            namespaces: no(Cause::AppArmor),
            landlock: Landlock::Yes { abi: 4 },
            overlayfs_in_userns: no(Cause::NeedsNamespaces),
            level: Level::Landlock,
            ..full()
        };
        let found = examined(probe);
        assert_eq!((found[0].status, found.len()), (Status::Note, 2));
        assert!(found[0].detail.contains("do not stop device ioctls, signals"), "{found:?}");
        let fix = found[0].fix.as_deref().unwrap();
        assert!(
            fix.contains("profile agora \"/opt/my agora/\\[x\\]/agora\" flags=(unconfined) {\n  userns,"),
            "{fix}"
        );
        assert!(fix.ends_with("apparmor_parser -r /etc/apparmor.d/agora"), "{fix}");
    }

    #[test]
    fn no_wall_is_broken_and_names_a_way_out() {
        let refusal = Refusal { cause: Cause::DisabledAtBoot, why: "Landlock is off".into() };
        let probe = Probe { landlock: Landlock::No(refusal), level: Level::None, ..full() };
        let found = examined(probe);
        assert_eq!(
            (found[0].status, found[0].detail.as_str()),
            (Status::Broken, "no wall can be built: Landlock is off")
        );
        assert!(found[0].fix.as_deref().unwrap().contains("lsm="));

        let probe = Probe { seccomp: no(Cause::Other), level: Level::None, ..full() };
        assert!(examined(probe)[0].fix.as_deref().unwrap().contains("docker"));
    }

    #[test]
    fn elsewhere_than_on_linux_it_is_a_note_with_one_reason() {
        let refusal = Refusal { cause: Cause::NotLinux, why: "it needs Linux".into() };
        let probe = Probe {
            namespaces: Support::No(refusal.clone()),
            landlock: Landlock::No(refusal.clone()),
            seccomp: Support::No(refusal.clone()),
            cgroup: Cgroup::No { why: refusal.why.clone() },
            overlayfs_in_userns: Support::No(refusal),
            level: Level::None,
        };
        let found = examined(probe);
        assert_eq!(
            (found[0].status, found[0].detail.as_str()),
            (Status::Note, "no wall can be built: it needs Linux")
        );
    }

    #[test]
    fn a_probe_that_cannot_start_is_told_with_its_cause() {
        let found = findings(&probe(Path::new("/nowhere/agora")), Path::new("/nowhere/agora"));
        assert_eq!(found[0].status, Status::Broken);
        assert!(found[0].detail.contains("could not start `/nowhere/agora`: No such file"), "{found:?}");
    }
}

//! From a refused system call to what refused it.

use std::fs;

use rustix::io::Errno;

use super::{Cause, Refusal};

/// The settings that explain a refusal. Read before the first try, because some differ inside a namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) unprivileged_userns_clone: Option<u64>,
    pub(super) max_user_namespaces: Option<u64>,
    pub(super) apparmor_restricts_userns: Option<u64>,
    pub(super) seccomp_mode: Option<u64>,
    pub(super) is_root: bool,
}

/// Which step was refused; the same error means different things at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Unshare,
    /// Everything done with the rights that the new namespace should have given.
    Inside,
    /// The mount of a fresh `/proc`.
    Proc,
}

impl Settings {
    pub(super) fn read() -> Self {
        Self {
            unprivileged_userns_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            apparmor_restricts_userns: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            seccomp_mode: seccomp_mode(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Names what refused a step. A rule that does not bind root cannot be what stopped root.
    pub(super) fn explain(&self, step: Step, doing: &str, error: Errno) -> Refusal {
        let cause = self.cause(step, error);
        let because = match cause {
            Cause::UsernsCloneSysctl => "`kernel.unprivileged_userns_clone` is 0",
            Cause::UserNamespaceLimit if self.max_user_namespaces == Some(0) => {
                "`user.max_user_namespaces` is 0"
            }
            Cause::UserNamespaceLimit => "no more namespaces are allowed (`user.max_*_namespaces`)",
            Cause::AppArmor => "`kernel.apparmor_restrict_unprivileged_userns` is 1",
            Cause::Filtered => "a seccomp filter forbids it, as in a container",
            Cause::ProcMasked => "parts of `/proc` are covered, as in a container",
            Cause::KernelLacks => "the kernel lacks it",
            Cause::NotLinux
            | Cause::SeveralThreads
            | Cause::DisabledAtBoot
            | Cause::NeedsNamespaces
            | Cause::Other => "the cause is not known; a chroot or a security module would do this",
        };
        Refusal { cause, why: format!("{doing}: {error}; {because}") }
    }

    fn cause(&self, step: Step, error: Errno) -> Cause {
        let filtered = self.seccomp_mode == Some(2);
        let apparmor = self.apparmor_restricts_userns == Some(1) && !self.is_root;
        match error {
            Errno::NOSYS | Errno::INVAL | Errno::NODEV => Cause::KernelLacks,
            Errno::NOSPC | Errno::USERS if step == Step::Unshare => Cause::UserNamespaceLimit,
            Errno::PERM | Errno::ACCESS => match step {
                Step::Unshare if self.unprivileged_userns_clone == Some(0) && !self.is_root => {
                    Cause::UsernsCloneSysctl
                }
                // A container's filter comes first: it answers before AppArmor is asked.
                Step::Unshare if filtered => Cause::Filtered,
                Step::Unshare | Step::Inside if apparmor => Cause::AppArmor,
                Step::Inside if filtered => Cause::Filtered,
                Step::Proc => Cause::ProcMasked,
                Step::Unshare | Step::Inside => Cause::Other,
            },
            _ => Cause::Other,
        }
    }
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn seccomp_mode() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_finds_its_cause() {
        let none = Settings::default();
        let clone = Settings { unprivileged_userns_clone: Some(0), ..none };
        let limit = Settings { max_user_namespaces: Some(0), ..none };
        let ubuntu = Settings { apparmor_restricts_userns: Some(1), ..none };
        let docker = Settings { seccomp_mode: Some(2), ..none };
        let docker_on_ubuntu = Settings { seccomp_mode: Some(2), ..ubuntu };
        let root = |settings| Settings { is_root: true, ..settings };
        let table = [
            (clone, Step::Unshare, Errno::PERM, Cause::UsernsCloneSysctl),
            (root(clone), Step::Unshare, Errno::PERM, Cause::Other),
            (limit, Step::Unshare, Errno::NOSPC, Cause::UserNamespaceLimit),
            (ubuntu, Step::Unshare, Errno::ACCESS, Cause::AppArmor),
            (ubuntu, Step::Inside, Errno::ACCESS, Cause::AppArmor),
            (root(ubuntu), Step::Inside, Errno::ACCESS, Cause::Other),
            (docker, Step::Unshare, Errno::PERM, Cause::Filtered),
            (docker_on_ubuntu, Step::Unshare, Errno::PERM, Cause::Filtered),
            (docker_on_ubuntu, Step::Inside, Errno::PERM, Cause::AppArmor),
            (docker, Step::Proc, Errno::PERM, Cause::ProcMasked),
            (none, Step::Unshare, Errno::INVAL, Cause::KernelLacks),
            (none, Step::Unshare, Errno::PERM, Cause::Other),
            (none, Step::Inside, Errno::NOSPC, Cause::Other),
        ];
        for (settings, step, error, expected) in table {
            assert_eq!(settings.cause(step, error), expected, "{settings:?} {step:?} {error:?}");
        }
    }

    #[test]
    fn the_sentence_names_the_setting() {
        let settings = Settings { max_user_namespaces: Some(0), ..Settings::default() };
        let refusal = settings.explain(Step::Unshare, "making a user namespace", Errno::NOSPC);
        assert!(refusal.why.starts_with("making a user namespace: "), "{refusal:?}");
        assert!(refusal.why.ends_with("`user.max_user_namespaces` is 0"), "{refusal:?}");
    }
}

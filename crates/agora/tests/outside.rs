//! A disk that is full, read-only, or not ours; files that were damaged.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts what it looks at"
)]

use std::fs;
use std::process::Command;

use agora_testkit::cli::{Cli, files_below, run};

fn cli() -> Cli {
    Cli::new(env!("CARGO_BIN_EXE_agora"))
}

/// Runs a script with a file system of its own mounted on `$AGORA_HOME`, in namespaces of its own.
fn in_own_mount(cli: &Cli, mount: &str, script: &str) -> Option<(i32, String)> {
    fs::create_dir_all(cli.agora_home()).unwrap();
    let binary = env!("CARGO_BIN_EXE_agora");
    let home = cli.agora_home();
    let text = format!(
        "{} || exit 99\nagora() {{ {binary} \"$@\"; }}\n{script}",
        mount.replace("HOME", home.to_str().unwrap())
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &text]);
    unshare.env_clear().env("PATH", "/usr/bin:/bin").env("AGORA_HOME", &home).current_dir(cli.work());
    let ran = run(&mut unshare);
    match ran.code {
        Some(99 | 1) if ran.stderr.contains("unshare") || ran.code == Some(99) => {
            agora_testkit::part::skipped(&format!("no user namespaces here: {}", ran.stderr));
            None
        }
        code => Some((code.unwrap(), ran.stderr)),
    }
}

#[test]
fn a_full_disk_is_named_and_nothing_is_half_done() {
    let cli = cli();
    cli.write("small/file", "x");
    cli.write("large/file", vec![b'x'; 900 * 1024]);
    let script = "agora capability register --name small --from small >/dev/null 2>&1 || exit 98\n\
                  agora capability register --name large --from large; code=$?\n\
                  agora capability get small >/dev/null 2>&1 || exit 97\n\
                  agora capability get large >/dev/null 2>&1 && exit 96\n\
                  test -z \"$(ls $AGORA_HOME/tmp)\" || exit 95\n\
                  exit $code";
    let Some((code, said)) = in_own_mount(&cli, "mount -t tmpfs -o size=400k none HOME", script) else {
        return;
    };
    assert_eq!(code, 3, "{said}");
    assert!(
        said.contains("No space left on device") && said.contains("hint: make room on the disk"),
        "{said}"
    );
}

#[test]
fn a_read_only_home_can_be_read_and_says_why_it_cannot_be_written() {
    let cli = cli();
    cli.write("cap/file", "x");
    cli.run(&["capability", "register", "--name", "there", "--from", "cap"]).success();
    cli.write("cap/file", "y");
    let script = "agora capability list >/dev/null 2>&1 || exit 98\n\
                  agora capability get there >/dev/null 2>&1 || exit 97\n\
                  agora capability register --name there --from cap";
    let mount = "mount --bind HOME HOME && mount -o remount,ro,bind HOME";
    let before = files_below(&cli.agora_home());
    let Some((code, said)) = in_own_mount(&cli, mount, script) else { return };
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("Read-only file system") && said.contains("hint: set `AGORA_HOME`"), "{said}");
    let changed = files_below(&cli.agora_home());
    assert!(before.iter().all(|file| changed.contains(file)), "nothing that was there changed");
}

/// What a dispatch needs of the disk: nothing is accepted that is not recorded, and with room again it runs.
#[test]
fn a_dispatch_on_a_full_disk_is_refused_and_runs_when_there_is_room() {
    let cli = cli();
    let script = "agora subagent register --name a --runtime command -- /bin/echo done >/dev/null 2>&1 || exit 98\n\
                  agora dispatch run --subagent a >/dev/null 2>&1 || exit 97\n\
                  dd if=/dev/zero of=$AGORA_HOME/fill bs=1k >/dev/null 2>&1\n\
                  agora dispatch run --subagent a --dispatch-id d_full; code=$?\n\
                  rm $AGORA_HOME/fill\n\
                  agora ls >/dev/null 2>&1 || exit 96\n\
                  agora show d_full >/dev/null 2>&1 && exit 95\n\
                  test \"$(agora dispatch run --subagent a --dispatch-id d_full 2>/dev/null)\" = done || exit 94\n\
                  exit $code";
    let Some((code, said)) = in_own_mount(&cli, "mount -t tmpfs -o size=4m none HOME", script) else {
        return;
    };
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("hint: make room on the disk"), "{said}");
}

#[test]
fn on_a_read_only_home_what_ran_can_be_seen_and_nothing_is_accepted() {
    let cli = cli();
    cli.run(&["subagent", "register", "--name", "a", "--runtime", "command", "--", "/bin/echo", "done"])
        .success();
    cli.run(&["dispatch", "run", "--subagent", "a", "--dispatch-id", "d_1"]).success();
    let script = "agora ls | grep -q finished || exit 98\n\
                  agora show d_1 >/dev/null 2>&1 || exit 97\n\
                  agora dispatch run --subagent a --dispatch-id d_2";
    let mount = "mount --bind HOME HOME && mount -o remount,ro,bind HOME";
    let Some((code, said)) = in_own_mount(&cli, mount, script) else { return };
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("hint: set `AGORA_HOME`"), "{said}");
    assert!(cli.run(&["show", "d_2"]).failure(2).contains("d_2"));
}

#[test]
fn a_damaged_file_is_named_with_what_mends_it() {
    let cli = cli();
    cli.write("cap/file", "content");
    cli.run(&["capability", "register", "--name", "c", "--from", "cap"]).success();
    let head = cli.agora_home().join("registry/default/capability/heads/c");
    let whole = fs::read(&head).unwrap();
    fs::write(&head, &whole[..whole.len() / 2]).unwrap();
    let said = cli.run(&["capability", "get", "c"]).failure(3);
    assert!(
        said.contains("heads/c` is damaged") && said.contains("hint: restore the file from a backup"),
        "{said}"
    );
    fs::write(&head, whole).unwrap();

    let (blob, whole) = files_below(&cli.agora_home().join("blobs")).pop().unwrap();
    fs::write(&blob, [&whole[..whole.len() - 1], b" "].concat()).unwrap();
    let said = cli.run(&["capability", "get", "c"]).failure(3);
    assert!(
        said.contains("hash does not match") && said.contains("register the same content again"),
        "{said}"
    );
    cli.run(&["capability", "register", "--name", "c", "--from", "cap"]).success();
    cli.run(&["capability", "get", "c"]).success();

    fs::write(cli.agora_home().join("format"), "agora home 9\n").unwrap();
    cli.write("cap/file", "other");
    let said = cli.run(&["capability", "register", "--name", "c", "--from", "cap"]).failure(3);
    assert!(said.contains("another version of agora"), "{said}");
}

#[test]
fn the_doctor_finds_what_is_no_longer_what_was_stored() {
    let cli = cli();
    for name in ["one", "two"] {
        cli.write("cap/file", name);
        cli.run(&["capability", "register", "--name", name, "--from", "cap"]).success();
    }
    cli.run_with_input(&["env", "register", "--name", "e", "--secret", "K=stdin"], "a-long-secret").success();
    let finding = |topic: &str| {
        let ran = cli.run(&["doctor", "--json"]);
        let findings: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let found =
            findings.as_array().unwrap().iter().find(|finding| finding["topic"] == topic).unwrap().clone();
        (
            ran.code.unwrap(),
            found["status"].as_str().unwrap().to_owned(),
            found["detail"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(
        finding("bundles"),
        (0, "ok".to_owned(), "3 bundles looked at, each is what was stored".to_owned())
    );
    assert_eq!(finding("secrets").2, "1 secret looked at, each is what was stored");

    let (pack, _) = files_below(&cli.agora_home().join("packs")).pop().unwrap();
    fs::write(&pack, "xxx").unwrap();
    let (code, status, detail) = finding("bundles");
    assert_eq!((code, status.as_str()), (3, "broken"), "{detail}");
    assert!(detail.contains("cannot be used") && detail.contains("hash does not match"), "{detail}");
    fs::write(cli.agora_home().join("keys/secrets.key"), "nonsense\n").unwrap();
    assert_eq!(finding("secrets").1, "broken");
}

#[test]
fn without_a_home_there_is_a_way_out() {
    let cli = cli();
    let mut command = cli.command(&["init"]);
    let said = run(command.env_remove("HOME").env_remove("AGORA_HOME")).failure(3);
    assert!(said.contains("hint: set `AGORA_HOME`"), "{said}");
    let mut command = cli.command(&["init"]);
    let home = run(command.env_remove("AGORA_HOME")).success();
    assert!(home.trim().ends_with("home/.local/share/agora"), "{home}");
}

#[test]
fn an_agent_that_fills_the_disk_is_ended_while_that_can_be_recorded() {
    let cli = Cli::new(env!("CARGO_BIN_EXE_agora"));
    let fillers = [
        // A mebibyte at a time, and so slowly that somebody can look in between.
        "n=0; while :; do head -c 1048576 /dev/zero > fill-$n; n=$((n+1)); sleep 0.05; done",
        // Faster than anybody looks: what is left is taken in a few calls, to the last block.
        "for size in 16M 4M 1M 64K 4K; do n=0; while fallocate -l $size $size-$n; do n=$((n+1)); done; done; exec sleep 1000",
        // Without a byte: as many files as there can be.
        "n=0; while command : > $n; do n=$((n+1)); done; exec sleep 1000",
    ];
    let works = "agora subagent register --name works --runtime command -- /bin/echo done >/dev/null 2>&1 || exit 91\n";
    let fill = |(number, fills): (usize, &&str)| {
        format!(
            "agora subagent register --name fills-{number} --runtime command -- /bin/sh -c '{fills}' >/dev/null 2>&1 || exit 90\n\
             agora dispatch run --subagent fills-{number}; echo \"code $?\" >&2\n\
             agora dispatch run --subagent works >&2 || exit 92\n"
        )
    };
    let script: Vec<String> =
        std::iter::once(works.to_owned()).chain(fillers.iter().enumerate().map(fill)).collect();
    let mount = "mount -t tmpfs -o size=48m,nr_inodes=3000 none HOME";
    let Some((code, said)) = in_own_mount(&cli, mount, &script.concat()) else { return };
    for wanted in ["(provider-failed, disk-full)", "code 1\n"] {
        assert_eq!(said.matches(wanted).count(), fillers.len(), "{said}");
    }
    assert!(code == 0 && said.contains("done"), "and there is room again: {said}");
}

//! Secrets: an agent that shouts them in every way, and a search of everything that left the worker.
#![expect(clippy::disallowed_methods, reason = "runs git")]

use std::fs;
use std::process::Command;

use agora_testkit::worker::Dispatch;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

const WORKER: &str = env!("CARGO_BIN_EXE_agora-worker");

/// One begins the other, one needs escapes everywhere, one is not ASCII.
const SECRETS: [&str; 4] = ["pa55word", "pa55word-and-more", "qu\"ote\\back\nline'end", "schlüssel-ÄÖ/+"];

/// Everything that a reader could make a secret out of again.
fn forms() -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for secret in SECRETS {
        forms.push(secret.as_bytes().to_vec());
        let escaped = json!(secret).to_string();
        forms.push(escaped.trim_matches('"').as_bytes().to_vec());
        for before in ["", "x", "xy"] {
            // Without the characters at both ends, which also hold what stands around it.
            let encoded = STANDARD.encode(format!("{before}{secret}"));
            forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
            let encoded = URL_SAFE_NO_PAD.encode(format!("{before}{secret}"));
            forms.push(encoded.as_bytes()[4..encoded.len() - 4].to_vec());
        }
    }
    forms
}

/// A Python program, because a shell would trip over the quotes before the worker does.
const AGENT: &str = r#"
import base64, json, os, subprocess, sys
secrets = [os.environ[name] for name in ("A", "B", "C", "D")]
for secret in secrets:
    for before in ("", "x", "xy", "xyz"):
        sys.stdout.write(before + secret + "\n")
        sys.stdout.write(base64.b64encode((before + secret + "tail").encode()).decode() + "\n")
        sys.stdout.write(base64.urlsafe_b64encode((before + secret).encode()).decode() + "\n")
    sys.stdout.write(json.dumps({secret: [secret]}) + "\n" + json.dumps(secret, ensure_ascii=False) + "\n")
    # Across the edges of the pieces that a pipe is read in.
    for size in (65530, 65536, 131066):
        sys.stdout.write("." * size + secret)
    sys.stdout.flush()
    for cut in range(1, len(secret.encode())):
        os.write(1, secret.encode()[:cut]); os.write(1, secret.encode()[cut:] + b"\n")
    sys.stderr.write("error: " + secret + "\n")
one, two, three, four = secrets
open("notes.txt", "w").write("first line\nthe key is " + two + "\nlast line\n")
open("quoted.json", "w").write(json.dumps({one: three, "b": four}) + "\n")
open("kept.txt", "w").write("old line\nnew line\n")
open("data.bin", "wb").write(b"\x00\xff" + one.encode() + b"\x00")
open("clean.bin", "wb").write(bytes(range(256)))
open("with-" + one + ".txt", "w").write("a name\n")
os.remove("old-secret.txt")
os.makedirs(".agora/outputs")
open(".agora/outputs/report.txt", "w").write("see " + three + "\n")
json.dump({"questions": [{"id": one, "question": "Use " + two + "?", "header": four,
    "options": [{"label": one, "description": three}, {"label": two}, "no"], "default": one}],
    "context": three, "partial_state": {two: [four, {"k": one}]}}, open(".agora/needs_input.json", "w"))
"#;

#[test]
fn nothing_secret_leaves_the_worker() {
    let subagent = json!({"runtime": "command", "command": ["python3", "-c", AGENT],
        "verify": {"command": "echo \"$A $B\"; echo \"$C\" >&2"}});
    let mut dispatch = Dispatch::of(WORKER, subagent)
        .env_with_secrets(&[], &[("A", "local:a"), ("B", "local:b"), ("C", "local:c"), ("D", "local:d")])
        .capability("c", &[("agora-setup.sh", "echo setup $A; echo \"$D\" >&2")])
        .file("kept.txt", "old line\n")
        .file("old-secret.txt", format!("before\n{}\nafter\n", SECRETS[0]));
    for (name, value) in ["local:a", "local:b", "local:c", "local:d"].into_iter().zip(SECRETS) {
        dispatch = dispatch.secret(name, value);
    }
    let base = tempfile::tempdir().unwrap();
    fs::write(base.path().join("kept.txt"), "old line\n").unwrap();
    fs::write(base.path().join("old-secret.txt"), format!("before\n{}\nafter\n", SECRETS[0])).unwrap();

    let ended = dispatch.run();
    let question = ended.asked();
    assert_eq!(
        (question.items().len(), question.items()[0].options().len()),
        (1, 3),
        "it can still be answered"
    );
    for (name, bytes) in ended.everything() {
        for form in forms() {
            let found = bytes.windows(form.len()).any(|window| window == form);
            assert!(!found, "{name} holds {:?}", String::from_utf8_lossy(&form));
        }
    }
    let report = ended.report();
    let patch = report.patch.unwrap();
    for name in ["notes.txt", "quoted.json", "data.bin", "old-secret.txt"] {
        assert!(
            patch.redacted_files.iter().any(|file| file.contains(name)),
            "{name}: {:?}",
            patch.redacted_files
        );
    }
    assert!(report.outputs[0].redacted);

    let path = ended.out("patch.diff");
    let apply = Command::new("git").arg("apply").arg(&path).current_dir(base.path()).output().unwrap();
    assert!(apply.status.success(), "{}", String::from_utf8_lossy(&apply.stderr));
    assert_eq!(fs::read_to_string(base.path().join("kept.txt")).unwrap(), "old line\nnew line\n");
    assert_eq!(fs::read(base.path().join("clean.bin")).unwrap().len(), 256);
    assert_eq!(
        fs::read_to_string(base.path().join("notes.txt")).unwrap(),
        "first line\nthe key is <redacted:secret>\nlast line\n"
    );
}

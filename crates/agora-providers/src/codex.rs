//! A login of Codex that is agora's own: a CODEX_HOME with refresh tokens that can be used once.
//!
//! Only one process at a time refreshes it, under a lock, and it lets the vendor's own program do so. Dispatches get the access
//! token and never the refresh token: however many run at once, none of them can spend it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use agora_core::time::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::fs::{FlockOperation, flock};
use serde::Deserialize;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::aside::aside;
use crate::home::read_capped;

/// What the file of a login may have: three tokens of some kilobytes.
const AUTH_BYTES: u64 = 256 * 1024;
/// How long the vendor's program may be silent before it is taken to hang.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many lines it may say beside its answer.
const MOST_LINES: usize = 1000;
/// A token is renewed when less than this is left of it: the longest dispatch, and an hour to wait for room.
const ENOUGH: Duration = Duration::from_secs(25 * 3600);

/// A directory that Codex keeps a login in, and nobody but agora.
#[derive(Clone, Debug)]
pub struct CodexHome(PathBuf);

/// What a dispatch logs in with. Not what it could log in with again.
#[derive(Clone)]
pub struct CodexTokens {
    pub access: Zeroizing<String>,
    pub id: Zeroizing<String>,
    pub account: Option<String>,
    /// When the access token ends, as far as it says.
    pub ends_at: Option<Timestamp>,
    refreshed_at: Option<Timestamp>,
}

impl std::fmt::Debug for CodexTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodexTokens").field("ends_at", &self.ends_at).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct AuthFile {
    tokens: Option<Tokens>,
    last_refresh: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: String,
    account_id: Option<String>,
}

impl CodexTokens {
    /// Tells whether a dispatch that starts now has enough of it. Of a token that lives shorter than a dispatch, half.
    fn is_enough(&self, now: Timestamp) -> bool {
        let Some(ends_at) = self.ends_at else { return true };
        let life = self.refreshed_at.map(|began| between(began, ends_at));
        let wanted = life.map_or(ENOUGH, |life| ENOUGH.min(life / 2));
        between(now, ends_at) > wanted
    }

    fn has_ended(&self, now: Timestamp) -> bool {
        self.ends_at.is_some_and(|ends_at| ends_at <= now)
    }
}

impl CodexHome {
    /// Names the directory in agora's home. It need not exist.
    pub fn below(home: &Path) -> Self {
        Self(home.join("codex"))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the directory, for its owner alone.
    pub fn prepare(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700))
    }

    /// Reads the login. `None`: there is none, or it is an API key.
    pub fn read(&self) -> io::Result<Option<CodexTokens>> {
        let Some(bytes) = read_capped(&self.auth_file(), AUTH_BYTES)?.map(Zeroizing::new) else {
            return Ok(None);
        };
        // Never quoted: it holds secrets.
        let file: AuthFile = serde_json::from_slice(&bytes)
            .map_err(|_| io::Error::other("codex's `auth.json` is not what it was"))?;
        Ok(file.tokens.map(|tokens| CodexTokens {
            ends_at: ends_at(&tokens.access_token),
            access: Zeroizing::new(tokens.access_token),
            id: Zeroizing::new(tokens.id_token),
            account: tokens.account_id,
            refreshed_at: file.last_refresh.as_deref().and_then(|text| text.parse().ok()),
        }))
    }

    /// Forgets the login, with everything that Codex keeps beside it.
    pub fn forget(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the login with enough time left for a dispatch, renewed if need be. What cannot be renewed is used as long as it
    /// lasts.
    pub async fn fresh(
        &self,
        environment: Vec<(OsString, OsString)>,
        now: Timestamp,
    ) -> io::Result<Option<CodexTokens>> {
        match self.read()? {
            None => Ok(None),
            Some(tokens) if tokens.is_enough(now) => Ok(Some(tokens)),
            Some(_) => {
                let home = self.clone();
                aside("codex-login", move || home.renew(&environment, now)).await?.map(Some)
            }
        }
    }

    /// Renews the login, unless somebody else has while this waited for its turn.
    fn renew(&self, environment: &[(OsString, OsString)], now: Timestamp) -> io::Result<CodexTokens> {
        let gone = || io::Error::other("the login of codex is gone");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.0.join("agora.lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let before = self.read()?.ok_or_else(gone)?;
        if before.is_enough(now) {
            return Ok(before);
        }
        let asked = self.ask_for_new_tokens(environment);
        let after = self.read()?.ok_or_else(gone)?;
        match asked {
            // What it answered matters less than what it wrote.
            _ if *after.access != *before.access => Ok(after),
            Err(error) if after.has_ended(now) => Err(error),
            Ok(()) if after.has_ended(now) => Err(io::Error::other("codex did not renew its login")),
            Ok(()) | Err(_) => Ok(after),
        }
    }

    /// Lets the vendor's own program refresh, by the way that its other front ends use.
    #[expect(clippy::disallowed_methods, reason = "the vendor's program, in a home that is agora's alone")]
    fn ask_for_new_tokens(&self, environment: &[(OsString, OsString)]) -> io::Result<()> {
        let child = Command::new("codex")
            .arg("app-server")
            .env_clear()
            .envs(environment.iter().cloned())
            // The user's own home is none of its business.
            .env("HOME", &self.0)
            .env("CODEX_HOME", &self.0)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child =
            child.map_err(|error| io::Error::new(error.kind(), format!("`codex` cannot be run: {error}")))?;
        let asked = ask(&mut child);
        let _ = child.kill();
        let _ = child.wait();
        asked
    }

    fn auth_file(&self) -> PathBuf {
        self.0.join("auth.json")
    }
}

/// Says hello, asks to refresh, and waits for the answer to that.
fn ask(child: &mut Child) -> io::Result<()> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("codex has no pipes"));
    };
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().take(MOST_LINES) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let hello = "{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientInfo\":{\"name\":\"agora\",\"version\":\"1\"}}}";
    say(&mut stdin, hello)?;
    await_answer(&lines, 1)?;
    say(&mut stdin, "{\"method\":\"initialized\"}")?;
    say(&mut stdin, "{\"id\":2,\"method\":\"account/read\",\"params\":{\"refreshToken\":true}}")?;
    await_answer(&lines, 2)
}

fn say(stdin: &mut ChildStdin, line: &str) -> io::Result<()> {
    stdin.write_all(format!("{line}\n").as_bytes())
}

fn await_answer(lines: &mpsc::Receiver<io::Result<String>>, id: u64) -> io::Result<()> {
    loop {
        let line = lines.recv_timeout(PATIENCE).map_err(|_| io::Error::other("codex did not answer"))??;
        let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
        if said["id"] == id {
            let failed = said["error"]["message"].as_str();
            return failed.map_or(Ok(()), |why| Err(io::Error::other(format!("codex says: {why}"))));
        }
    }
}

/// Returns how long it is from one moment to a later one.
fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(to.as_millis() - from.as_millis()).unwrap_or(0))
}

/// Reads when a token ends, of what it says about itself.
fn ends_at(token: &str) -> Option<Timestamp> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(Timestamp::from_millis(claims["exp"].as_i64()?.checked_mul(1000)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(life: Option<i64>, left: i64) -> CodexTokens {
        let now = 1_000_000_000_000;
        let ends_at = now + left * 1000;
        CodexTokens {
            access: Zeroizing::default(),
            id: Zeroizing::default(),
            account: None,
            ends_at: Some(Timestamp::from_millis(ends_at)),
            refreshed_at: life.map(|life| Timestamp::from_millis(ends_at - life * 1000)),
        }
    }

    #[test]
    fn a_token_is_renewed_before_a_dispatch_could_outlive_it() {
        let (now, day) = (Timestamp::from_millis(1_000_000_000_000), 86_400);
        for (life, left, enough) in [
            (Some(10 * day), 9 * day, true),
            (Some(10 * day), day, false),
            (None, day, false),
            (Some(3600), 3000, true),
            (Some(3600), 1700, false),
            (Some(10 * day), -1, false),
        ] {
            assert_eq!(tokens(life, left).is_enough(now), enough, "{life:?} {left}");
        }
    }

    #[test]
    fn what_a_token_says_of_its_end_is_read() {
        let claims = URL_SAFE_NO_PAD.encode("{\"exp\": 1794865223}");
        assert_eq!(ends_at(&format!("x.{claims}.y")), Some(Timestamp::from_millis(1_794_865_223_000)));
        for token in ["", "a.b", "a.!!.c", "opaque"] {
            assert_eq!(ends_at(token), None, "{token}");
        }
    }

    #[test]
    fn the_home_is_its_owners_alone_and_can_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let home = CodexHome::below(dir.path());
        assert!(home.read().unwrap().is_none());
        home.prepare().unwrap();
        assert_eq!(fs::metadata(home.path()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(home.auth_file(), "{\"tokens\": {\"secret\"").unwrap();
        let said = home.read().unwrap_err().to_string();
        assert!(!said.contains("secret"), "{said}");
        fs::write(home.auth_file(), "{\"OPENAI_API_KEY\": \"sk\"}").unwrap();
        assert!(home.read().unwrap().is_none());
        home.forget().unwrap();
        home.forget().unwrap();
        assert!(!home.path().exists());
    }
}

//! A scripted login server: each refresh token works once, and whoever uses one twice loses the whole login.
//!
//! It speaks as much of OAuth as Codex does: a device code, the exchange of a code, and the renewal of a token. Claude Code's token
//! endpoint is not turned here: for a login of its own, what is looked at is whether anybody opened the file.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::model::http::{self, Call, Head};

/// What a login consists of.
#[derive(Clone, Debug)]
pub struct Tokens {
    pub access: String,
    pub refresh: String,
    pub id: String,
}

/// The server. Ends when it is dropped.
#[derive(Debug)]
pub struct LoginServer {
    address: SocketAddr,
    books: Arc<Books>,
    serving: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Books {
    over: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Every login, by the tokens that it ever had: the last one is good, the others were used.
    logins: Vec<Login>,
    /// How many seconds an access token lives. May be less than none.
    life: i64,
    requests: Vec<String>,
}

#[derive(Debug)]
struct Login {
    tokens: Vec<String>,
    revoked: bool,
}

impl LoginServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let books = Arc::new(Books::default());
        books.kept.lock().unwrap().life = 10 * 86_400;
        let served = Arc::clone(&books);
        let serving = thread::spawn(move || {
            for stream in listener.incoming() {
                if served.over.load(Ordering::SeqCst) {
                    return;
                }
                let books = Arc::clone(&served);
                let _ = stream.map(|stream| thread::spawn(move || serve(&books, &stream)));
            }
        });
        Self { address, books, serving: Some(serving) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets access tokens live so many seconds from now on.
    pub fn let_tokens_live(&self, seconds: i64) {
        self.books.kept.lock().unwrap().life = seconds;
    }

    /// Logs somebody in, as a browser would have.
    pub fn log_in(&self) -> Tokens {
        self.books.kept.lock().unwrap().log_in()
    }

    /// Renews a login, as its owner would. `None`: it is refused.
    pub fn renew(&self, refresh: &str) -> Option<Tokens> {
        self.books.kept.lock().unwrap().renew(refresh)
    }

    /// Returns what was asked over the network, in its order: `exchange`, `renew TOKEN`.
    pub fn requests(&self) -> Vec<String> {
        self.books.kept.lock().unwrap().requests.clone()
    }
}

impl Drop for LoginServer {
    fn drop(&mut self) {
        self.books.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

impl Kept {
    fn log_in(&mut self) -> Tokens {
        self.logins.push(Login { tokens: Vec::new(), revoked: false });
        self.issue(self.logins.len() - 1)
    }

    fn renew(&mut self, refresh: &str) -> Option<Tokens> {
        let number =
            self.logins.iter().position(|login| login.tokens.iter().any(|token| token == refresh))?;
        let login = &mut self.logins[number];
        let is_good = login.tokens.last().is_some_and(|last| last == refresh) && !login.revoked;
        if !is_good {
            // Somebody has a copy: nobody can say who is who.
            login.revoked = true;
            return None;
        }
        Some(self.issue(number))
    }

    fn issue(&mut self, number: usize) -> Tokens {
        let turn = self.logins[number].tokens.len();
        let refresh = format!("single-use-{number}-{turn}");
        self.logins[number].tokens.push(refresh.clone());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let exp = i64::try_from(now).unwrap() + self.life;
        let account = json!({"chatgpt_account_id": format!("account-{number}"), "chatgpt_plan_type": "pro"});
        let id = json!({"email": "ann@example.org", "exp": exp, "https://api.openai.com/auth": account});
        Tokens { access: token(&json!({"exp": exp, "login": number, "turn": turn})), refresh, id: token(&id) }
    }

    fn answer(&mut self, path: &str, body: &str) -> (u16, Value) {
        let grant = if body.contains("refresh_token") { "renew" } else { "exchange" };
        match path {
            "/api/accounts/deviceauth/usercode" => {
                (200, json!({"device_auth_id": "device", "user_code": "ABCD-1234", "interval": "0"}))
            }
            "/api/accounts/deviceauth/token" => {
                (200, json!({"authorization_code": "code", "code_challenge": "c", "code_verifier": "v"}))
            }
            "/oauth/token" => {
                let asked: Value = serde_json::from_str(body).unwrap_or_default();
                let token = asked["refresh_token"].as_str().map(|token| format!(" {token}"));
                self.requests.push(format!("{grant}{}", token.unwrap_or_default()));
                let tokens = match asked["refresh_token"].as_str() {
                    Some(refresh) => self.renew(refresh),
                    None => Some(self.log_in()),
                };
                match tokens {
                    Some(Tokens { access, refresh, id }) => {
                        (200, json!({"access_token": access, "refresh_token": refresh, "id_token": id}))
                    }
                    None => {
                        (401, json!({"error": {"code": "refresh_token_reused", "message": "used before"}}))
                    }
                }
            }
            _ => (404, json!({})),
        }
    }
}

/// Makes a token that says something of itself, as the real ones do. Nobody checks who signed it.
fn token(claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.signature", part(&json!({"alg": "none", "typ": "JWT"})), part(claims))
}

fn serve(books: &Books, stream: &TcpStream) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    while let Ok(Some(Call { target, body, .. })) = http::read(&mut reader, &mut writer) {
        let path = target.split('?').next().unwrap_or_default();
        let (status, answer) = books.kept.lock().unwrap().answer(path, &String::from_utf8_lossy(&body));
        let answer = answer.to_string();
        let head = Head { status, content_type: "application/json", headers: &[] };
        let sent =
            head.write_sized(&mut writer, answer.len()).and_then(|()| writer.write_all(answer.as_bytes()));
        if sent.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_token_works_once_and_twice_ends_the_login() {
        let server = LoginServer::start();
        let first = server.log_in();
        let second = server.renew(&first.refresh).unwrap();
        assert_ne!(first.access, second.access);
        assert!(server.renew(&first.refresh).is_none(), "it was used");
        assert!(server.renew(&second.refresh).is_none(), "and with it everything that came of it");
        assert!(server.renew("unknown").is_none());
    }
}

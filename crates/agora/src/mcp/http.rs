//! The same server over a socket of this machine, for who has a token. Loopback is no protection: every program of this machine reaches
//! it, and every web page by the browser's hand. So the token is asked for first, then `Host` and `Origin` are looked at.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use agora_core::time::Clock;
use agora_engine::SystemClock;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Trouble;
use super::client::owner;
use super::desk::Desk;
use super::guests::{Full as TooMany, Guests, Whose};
use super::lines::{REQUEST_BYTES, TOO_LARGE};
use super::lobby::{Lobby, Shown};
use super::server::Server;
use super::shown::FORM_TIME;
use super::token::{Claims, Tokens};

/// Whoever connects and says nothing is let go.
const HEADER_TIME: Duration = Duration::from_secs(10);
/// And so is who begins to say something and does not end. What comes from this machine comes at once.
const BODY_TIME: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 512;
/// A session in which nothing happens ends. While a person looks at a form nothing does.
const IDLE_TIME: Duration = FORM_TIME.saturating_add(Duration::from_secs(300));

const SESSION: &str = "mcp-session-id";
const TOO_MANY_SESSIONS: &str =
    "this token has too many sessions open, and something goes on in each of them: end one\n";

type Body = BoxBody<Bytes, Infallible>;
type Service<S> = StreamableHttpService<S, LocalSessionManager>;

/// A socket that is listened to.
#[derive(Debug)]
pub(crate) struct HttpDoor {
    listener: TcpListener,
    address: SocketAddr,
    tokens: Arc<Tokens>,
}

/// An address that is of this machine alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loopback(SocketAddr);

impl FromStr for Loopback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: SocketAddr =
            text.parse().map_err(|error: std::net::AddrParseError| error.to_string())?;
        if address.ip().is_loopback() {
            return Ok(Self(address));
        }
        Err("it is not an address of this machine alone: use 127.0.0.1, and a tunnel with a log-in of its own for others".to_owned())
    }
}

/// Listens, on this machine alone.
pub(crate) async fn bind(Loopback(address): Loopback, tokens: Tokens) -> Result<HttpDoor, Trouble> {
    let refused = |error: std::io::Error| {
        Trouble::new("address-refused", format!("`{address}` cannot be listened to: {error}"))
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok(HttpDoor { listener, address, tokens: Arc::new(tokens) })
}

impl HttpDoor {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the process ends.
    pub(crate) async fn serve(self, desk: Arc<Desk>) -> Result<(), Trouble> {
        self.serve_as(move || Server::shared(Arc::clone(&desk))).await
    }

    /// Serves what a function makes, for each session or request.
    pub(crate) async fn serve_as<S: ServerHandler>(
        self,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Result<(), Trouble> {
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(own_names(self.address))
            .with_allowed_origins(own_origins(self.address))
            .with_max_request_body_bytes(REQUEST_BYTES);
        let guests = Arc::new(Guests::new(IDLE_TIME));
        let service = StreamableHttpService::new(move || Ok(make()), Arc::clone(&guests.sessions), config);
        let (room, lobby) = (Arc::new(Semaphore::new(CONNECTIONS)), Lobby::default());
        loop {
            // A client that is gone before it was heard, or no descriptor left for the moment: neither ends the server.
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if room.available_permits() == 0 {
                lobby.let_one_go();
            }
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
            let shown = Shown::default();
            let inside = Inside {
                shown: shown.clone(),
                service: service.clone(),
                tokens: Arc::clone(&self.tokens),
                guests: Arc::clone(&guests),
            };
            let connection = tokio::spawn(async move {
                connection(stream, inside).await;
                drop(permit);
            });
            lobby.enter(shown, connection.abort_handle());
        }
    }
}

/// What lies behind the door.
struct Inside<S: ServerHandler> {
    shown: Shown,
    service: Service<S>,
    tokens: Arc<Tokens>,
    guests: Arc<Guests>,
}

async fn connection<S: ServerHandler>(stream: TcpStream, inside: Inside<S>) {
    let inside = Arc::new(inside);
    let answer = service_fn(move |request: Request<Incoming>| {
        let inside = Arc::clone(&inside);
        async move { Ok::<_, Infallible>(answer(request, &inside).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIME);
    // What goes wrong on one connection is that client's own affair.
    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
}

async fn answer<S: ServerHandler>(request: Request<Incoming>, inside: &Inside<S>) -> Response<Body> {
    // A page that lost its way is told so before it is asked for a token: it has none to give.
    if !is_own_host(&request) || !is_own_origin(request.headers()) {
        return words(
            StatusCode::FORBIDDEN,
            "this server is for programs of this machine, not for pages from elsewhere\n",
        );
    }
    let claims = match claims(request.headers(), &inside.tokens) {
        Ok(claims) => claims,
        Err(no) => return no.answer(),
    };
    inside.shown.a_token();
    if request.uri().path() != "/mcp" {
        return words(StatusCode::NOT_FOUND, "the server is at /mcp\n");
    }
    serve(request, claims, inside).await
}

/// Serves whoever showed a token.
async fn serve<S: ServerHandler>(
    request: Request<Incoming>,
    claims: Claims,
    Inside { service, guests, .. }: &Inside<S>,
) -> Response<Body> {
    let who = owner(&claims);
    let Some(permit) = guests.enter(&who) else {
        return words(StatusCode::TOO_MANY_REQUESTS, "this token has too many requests under way\n");
    };
    let (mut parts, body) = request.into_parts();
    let session = session_id(&parts.headers);
    let mut in_use = None;
    match session.as_deref().map(|session| guests.whose(session, &who)) {
        Some(Whose::Own(hand)) => in_use = Some(hand),
        // As if it were none, to the letter: whoever only guessed learns nothing.
        Some(Whose::Anothers) => {
            parts.headers.insert(SESSION, header::HeaderValue::from_static("none"));
        }
        Some(Whose::Nobodys) | None => {}
    }
    parts.extensions.insert(claims);
    let body = match whole(body, BODY_TIME).await {
        Ok(body) => body,
        Err(refused) => return refused,
    };
    let response = service.handle(Request::from_parts(parts, body)).await;
    if let (None, Some(opened)) = (session, session_id(response.headers())) {
        match guests.opened(&opened, &who).await {
            Ok(hand) => in_use = Some(hand),
            Err(TooMany) => return words(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_SESSIONS),
        }
    }
    let under_way = (permit, in_use);
    // It is under way until all of it is said.
    response.map(|body| {
        body.map_frame(move |frame| {
            let _ = &under_way;
            frame
        })
        .boxed()
    })
}

/// Reads a body to its end, in time.
async fn whole<B>(body: B, time: Duration) -> Result<Full<Bytes>, Response<Body>>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    match tokio::time::timeout(time, Limited::new(body, REQUEST_BYTES).collect()).await {
        Ok(Ok(body)) => Ok(Full::new(body.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(words(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE))
        }
        Ok(Err(_)) => Err(words(StatusCode::BAD_REQUEST, "the request is cut off\n")),
        Err(_) => Err(words(StatusCode::REQUEST_TIMEOUT, "the request did not come to its end\n")),
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION)?.to_str().ok().map(str::to_owned)
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotLetIn {
    NoToken,
    /// It is no token of this home, or it has ended. Which of them is nobody's affair who has none.
    BadToken,
}

impl NotLetIn {
    fn answer(self) -> Response<Body> {
        let (text, challenge) = match self {
            Self::NoToken => ("a token is missing: `agora mcp token` makes one\n", "Bearer"),
            Self::BadToken => (
                "the token is not one of this home, or it has expired: `agora mcp token` makes another\n",
                "Bearer error=\"invalid_token\"",
            ),
        };
        let mut refused = words(StatusCode::UNAUTHORIZED, text);
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static(challenge));
        refused
    }
}

fn claims(headers: &HeaderMap, tokens: &Tokens) -> Result<Claims, NotLetIn> {
    let given = headers.get(header::AUTHORIZATION).and_then(|given| given.to_str().ok());
    let (scheme, token) = given.and_then(|given| given.split_once(' ')).ok_or(NotLetIn::NoToken)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(NotLetIn::NoToken);
    }
    tokens.check(token.trim(), SystemClock.now()).ok_or(NotLetIn::BadToken)
}

/// Tells whether the request was meant for this machine: a name that somebody else's server gave this address is not. Said twice, it is said
/// to deceive.
fn is_own_host<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let host = host.to_str().ok().and_then(|host| host.parse::<http::uri::Authority>().ok());
    host.is_some_and(|host| is_own(&host)) && request.uri().authority().is_none_or(is_own)
}

/// Tells whether the request comes from no page, or from one that this machine serves.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    origins.all(|origin| {
        let uri = origin.to_str().ok().and_then(|text| text.parse::<http::Uri>().ok());
        uri.as_ref().and_then(http::Uri::authority).is_some_and(is_own)
    })
}

/// Returns what this machine is called, as rmcp looks at it once more. There is more than one address of a machine alone.
fn own_names(address: SocketAddr) -> Vec<String> {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    ["localhost", "127.0.0.1", "[::1]", &ip].map(str::to_owned).to_vec()
}

fn own_origins(address: SocketAddr) -> Vec<String> {
    let names = own_names(address);
    ["http", "https"]
        .iter()
        .flat_map(|scheme| names.iter().map(move |name| format!("{scheme}://{name}:*")))
        .collect()
}

fn is_own(authority: &http::uri::Authority) -> bool {
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn words(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_outlives_a_form_that_a_person_looks_at() {
        assert!(
            Guests::new(IDLE_TIME).sessions.session_config.keep_alive.is_some_and(|idle| idle > FORM_TIME)
        );
    }

    #[test]
    fn who_brings_a_bad_token_is_not_told_that_it_is_missing() {
        let tokens = Tokens::new([1; 32]).unwrap();
        let brings = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, text.parse().unwrap());
            claims(&headers, &tokens).map(|claims| claims.name)
        };
        let issued = |seconds: u64| {
            let life = Duration::from_secs(seconds);
            format!("Bearer {}", tokens.issue("ann".parse().unwrap(), 0, life, SystemClock.now()))
        };
        assert_eq!(brings(&issued(60)), Ok("ann".parse().unwrap()));
        assert_eq!(brings(&issued(0)), Err(NotLetIn::BadToken), "it has ended");
        assert_eq!(brings("Bearer nonsense"), Err(NotLetIn::BadToken));
        assert_eq!(brings("Basic nonsense"), Err(NotLetIn::NoToken));
        assert_eq!(claims(&HeaderMap::new(), &tokens).map(drop), Err(NotLetIn::NoToken));
        let answer = NotLetIn::BadToken.answer();
        assert_eq!(answer.headers()[header::WWW_AUTHENTICATE], "Bearer error=\"invalid_token\"");
    }

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        let asked = |path: &str, hosts: &[&str]| {
            let request =
                hosts.iter().fold(Request::get(path), |request, host| request.header("host", *host));
            is_own_host(&request.body(()).unwrap())
        };
        let own = |host: &str| asked("/mcp", &[host]);
        for host in ["localhost:80", "127.0.0.1:4000", "[::1]:4000", "LOCALHOST", "127.0.0.1"] {
            assert!(own(host), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "", "a b"]
        {
            assert!(!own(host), "{host}");
        }
        assert!(!asked("/mcp", &[]));
        assert!(
            !asked("/mcp", &["localhost", "evil.example"]) && !asked("/mcp", &["localhost", "localhost"])
        );
        assert!(asked("http://localhost:80/mcp", &["localhost"]));
        assert!(!asked("http://evil.example/mcp", &["localhost"]), "where it really goes counts");
    }

    #[test]
    fn only_pages_of_this_machine_may_speak() {
        let own = |origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            is_own_origin(&headers)
        };
        assert!(is_own_origin(&HeaderMap::new()), "a program sends none");
        assert!(own("http://localhost:3000") && own("http://127.0.0.1:8080"));
        for origin in ["http://evil.example", "null", "", "http://localhost.evil.example", "file://"] {
            assert!(!own(origin), "{origin}");
        }
    }

    /// A body of which no more comes.
    struct Silent;

    impl hyper::body::Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Infallible>>> {
            std::task::Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_request_has_an_end() {
        let refused =
            |body: Result<Full<Bytes>, Response<Body>>| body.map(drop).map_err(|refused| refused.status());
        assert_eq!(refused(whole(Silent, Duration::ZERO).await), Err(StatusCode::REQUEST_TIMEOUT));
        let large = Full::new(Bytes::from(vec![b' '; REQUEST_BYTES + 1]));
        assert_eq!(refused(whole(large, BODY_TIME).await), Err(StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(refused(whole(Full::new(Bytes::from_static(b"{}")), BODY_TIME).await), Ok(()));
    }
}

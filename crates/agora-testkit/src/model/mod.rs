//! A model that says what a test tells it to: the wire of Anthropic's Messages and of OpenAI's Responses on loopback.
//!
//! A real agent is pointed at [`Model::url`] and plays through a script. No account is needed, and what the agent
//! sent can be looked at.
//!
//! ```text
//!  script    what the model says, turn by turn          request   what the agent sent
//!  server    connections, and the end of all of them    http      the protocol below
//!  wire      anthropic, openai: the same turn on two wires
//! ```

mod anthropic;
pub(crate) mod http;
mod openai;
mod request;
mod script;
mod server;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use request::Request;
pub use script::{Cut, Turn};

/// How long a test waits for an agent that may have died. Under heavy load an agent takes seconds to its first
/// request; the test runner ends a test after two minutes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. It stops, with all its connections and threads, when it is dropped.
pub struct Model {
    address: SocketAddr,
    stage: Arc<Stage>,
    acceptor: Option<JoinHandle<()>>,
}

/// What all connections share.
struct Stage {
    script: Mutex<Script>,
    log: Mutex<Log>,
    logged: Condvar,
    curtain: server::Curtain,
}

enum Script {
    Turns(VecDeque<Turn>),
    Function(Box<dyn FnMut(&Request) -> Turn + Send>),
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    others: Vec<String>,
    overrun: bool,
}

impl Model {
    /// Starts a server that answers each call of the model with the next turn. When the script is over, it says
    /// so with a text, which ends the agent's run, and [`Model::overrun`] tells.
    pub fn start(turns: Vec<Turn>) -> Self {
        Self::play(Script::Turns(turns.into_iter().flat_map(Turn::unrolled).collect()), Ipv4Addr::LOCALHOST)
    }

    /// Starts one that is also heard from other networks of this machine, such as a container's.
    pub fn start_for_others(turns: Vec<Turn>) -> Self {
        Self::play(Script::Turns(turns.into_iter().flat_map(Turn::unrolled).collect()), Ipv4Addr::UNSPECIFIED)
    }

    /// Starts a server that asks a function for each turn, one call at a time. A panic in there comes out when the
    /// server is dropped.
    pub fn start_with(function: impl FnMut(&Request) -> Turn + Send + 'static) -> Self {
        Self::play(Script::Function(Box::new(function)), Ipv4Addr::LOCALHOST)
    }

    fn play(script: Script, on: Ipv4Addr) -> Self {
        let listener = TcpListener::bind((on, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stage = Arc::new(Stage {
            script: Mutex::new(script),
            log: Mutex::default(),
            logged: Condvar::new(),
            curtain: server::Curtain::default(),
        });
        let acceptor = {
            let stage = Arc::clone(&stage);
            thread::Builder::new().name("model".into()).spawn(move || server::accept(&stage, &listener))
        };
        Self { address, stage, acceptor: Some(acceptor.unwrap()) }
    }

    /// Returns where it listens: `http://127.0.0.1:PORT`. OpenAI's clients want `/v1` after it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the calls of the model so far, in the order in which they were answered.
    pub fn requests(&self) -> Vec<Request> {
        self.stage.log.lock().unwrap().requests.clone()
    }

    /// Returns everything else that was asked for so far, as in `GET /v1/models`.
    pub fn others(&self) -> Vec<String> {
        self.stage.log.lock().unwrap().others.clone()
    }

    /// Waits until so many calls of the model have arrived, and returns them. They need not be answered yet.
    #[track_caller]
    pub fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        let log = self.stage.log.lock().unwrap();
        let (log, waited) =
            self.stage.logged.wait_timeout_while(log, PATIENCE, |log| log.requests.len() < count).unwrap();
        let arrived = log.requests.clone();
        drop(log);
        assert!(!waited.timed_out(), "{} of {count} requests arrived in {PATIENCE:?}", arrived.len());
        arrived
    }

    /// Tells whether there were more calls than turns.
    pub fn overrun(&self) -> bool {
        self.stage.log.lock().unwrap().overrun
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.stage.curtain.fall();
        // The acceptor looks up when somebody comes. If nobody can, it has already been woken by others.
        let _ = TcpStream::connect(self.address);
        let played = self.acceptor.take().map(JoinHandle::join);
        if matches!(played, Some(Err(_))) && !thread::panicking() {
            panic!("the model's script panicked; what it said stands above");
        }
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Stage {
    /// Records a call of the model and returns its answer. Both happen under the script's lock, so that the log has
    /// the order of the turns.
    fn next_turn(&self, request: Request) -> Turn {
        // A function that panicked before has been heard; the other connections go on.
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        self.log.lock().unwrap().requests.push(request.clone());
        self.logged.notify_all();
        match &mut *script {
            Script::Function(function) => function(&request),
            Script::Turns(turns) => turns.pop_front().unwrap_or_else(|| {
                self.log.lock().unwrap().overrun = true;
                Turn::text("(script over)")
            }),
        }
    }

    fn note_other(&self, what: String) {
        self.log.lock().unwrap().others.push(what);
    }
}

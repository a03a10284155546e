//! Connections: one thread each, and an end that reaches all of them.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::{self, Call, Head, ReadError};
use super::script::{Answer, Turn};
use super::wire::{Payload, Wire};
use super::{Request, Stage};

/// Counts answers over all servers of a process: ids must differ also when a session goes on with another server.
static ANSWERS: AtomicU64 = AtomicU64::new(1);

/// How long to wait when the system has no connection to give.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);

/// How much is still read from a client that was refused: more than any agent has on its way.
const LINGER_BYTES: u64 = 128 * 1024 * 1024;

/// The end of the server. Whoever waits, reads or writes is woken by it.
#[derive(Default)]
pub(super) struct Curtain {
    open: Mutex<Open>,
    fallen: Condvar,
}

#[derive(Default)]
struct Open {
    over: bool,
    /// Weak, because a connection ends with its own thread.
    connections: Vec<Weak<TcpStream>>,
}

impl Curtain {
    pub(super) fn fall(&self) {
        let mut open = self.open.lock().unwrap();
        open.over = true;
        for connection in open.connections.drain(..).filter_map(|connection| connection.upgrade()) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.fallen.notify_all();
    }

    /// Takes a connection that the end shall reach, or `None` when it has come.
    fn admit(&self, stream: TcpStream) -> Option<Arc<TcpStream>> {
        let mut open = self.open.lock().unwrap();
        let stream = Arc::new(stream);
        open.connections.retain(|connection| connection.strong_count() > 0);
        open.connections.push(Arc::downgrade(&stream));
        (!open.over).then_some(stream)
    }

    /// Waits for a time, and tells whether the end came first.
    fn falls_within(&self, time: Duration) -> bool {
        let open = self.open.lock().unwrap();
        self.fallen.wait_timeout_while(open, time, |open| !open.over).unwrap().0.over
    }

    fn wait(&self) {
        let _open = self.fallen.wait_while(self.open.lock().unwrap(), |open| !open.over).unwrap();
    }
}

/// Serves until the end. Returns when the last connection's thread has ended.
pub(super) fn accept(stage: &Stage, listener: &TcpListener) {
    thread::scope(|scope| {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let Some(stream) = stage.curtain.admit(stream) else { return };
                    scope.spawn(move || Connection { stage, stream: &stream }.serve());
                }
                Err(_) if stage.curtain.falls_within(ACCEPT_AGAIN) => return,
                Err(_) => {}
            }
        }
    });
}

struct Connection<'a> {
    stage: &'a Stage,
    stream: &'a TcpStream,
}

/// Whether the connection can be used again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Open,
    Close,
}

impl Connection<'_> {
    fn serve(&self) {
        // Small events would otherwise wait for each other.
        let _ = self.stream.set_nodelay(true);
        let mut reader = BufReader::new(self.stream);
        loop {
            let after = match http::read(&mut reader, &mut &*self.stream) {
                Ok(Some(call)) => self.answer(call).unwrap_or(After::Close),
                Ok(None) | Err(ReadError::Broken) => After::Close,
                Err(ReadError::TooLarge) => self.refuse(413, "too large"),
                Err(ReadError::Malformed(why)) => self.refuse(400, why),
            };
            if after == After::Close {
                return;
            }
        }
    }

    fn answer(&self, call: Call) -> io::Result<After> {
        let after = if call.keep_alive { After::Open } else { After::Close };
        let path = call.target.split('?').next().unwrap_or_default();
        let Some(wire) = Wire::of(&call.method, path) else {
            return self.answer_other(&call, path).map(|()| after);
        };
        let Ok(body) = serde_json::from_slice(&call.body) else {
            return Ok(self.refuse(400, "the body is JSON"));
        };
        let request = Request { path: call.target, headers: call.headers, body };
        let turn = self.stage.next_turn(request.clone());
        Ok(match self.play(wire, &request, &turn)? {
            After::Open => after,
            After::Close => After::Close,
        })
    }

    /// Answers what is not a call of the model in a way that nobody stumbles over.
    fn answer_other(&self, call: &Call, path: &str) -> io::Result<()> {
        self.stage.note_other(format!("{} {}", call.method, call.target));
        let body = match path {
            "/v1/messages/count_tokens" => json!({"input_tokens": 100}),
            "/v1/models" => json!({"object": "list", "data": [], "models": []}),
            _ => json!({}),
        };
        let body = body.to_string();
        json_head(200, &[]).write_sized(&mut &*self.stream, body.len())?;
        match call.method.as_str() {
            "HEAD" => Ok(()),
            _ => (&*self.stream).write_all(body.as_bytes()),
        }
    }

    /// Refuses a request after which nobody knows where the next one begins.
    fn refuse(&self, status: u16, why: &str) -> After {
        let close = [("connection".into(), "close".into())];
        let _ = self.write_json(status, &close, &json!({"error": {"message": why}}));
        // Closing over unread bytes would be a reset, and the client might not see the answer.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = io::copy(&mut self.stream.take(LINGER_BYTES), &mut io::sink());
        After::Close
    }

    fn play(&self, wire: Wire, request: &Request, turn: &Turn) -> io::Result<After> {
        if !turn.delay.is_zero() && self.stage.curtain.falls_within(turn.delay) {
            return Ok(After::Close);
        }
        let number = ANSWERS.fetch_add(1, Ordering::SeqCst);
        match &turn.answer {
            Answer::Reply(reply) => {
                let payload = wire.payload(reply, request, number);
                self.send(turn, &payload, &payload.pieces())?;
                self.end(&payload)
            }
            Answer::Cut(cut, reply) => {
                let payload = wire.payload(reply, request, number);
                self.send(turn, &payload, &payload.pieces_until(*cut)).map(|()| After::Close)
            }
            Answer::Error(refusal) => {
                let body = wire.error(refusal, number);
                self.write_json(refusal.status, &turn.headers, &body).map(|()| After::Open)
            }
            Answer::Hang => {
                self.stage.curtain.wait();
                Ok(After::Close)
            }
        }
    }

    /// Sends the head of a reply and these pieces of it.
    fn send(&self, turn: &Turn, payload: &Payload, pieces: &[&[u8]]) -> io::Result<()> {
        let mut out = self.stream;
        let head = Head { status: 200, content_type: payload.content_type(), headers: &turn.headers };
        match payload {
            Payload::Document(document) => {
                head.write_sized(&mut out, document.len())?;
                pieces.iter().try_for_each(|piece| out.write_all(piece))
            }
            Payload::Events(_) => {
                head.write_chunked(&mut out)?;
                pieces.iter().try_for_each(|piece| http::write_chunk(&mut out, piece))
            }
        }
    }

    fn end(&self, payload: &Payload) -> io::Result<After> {
        match payload {
            Payload::Document(_) => {}
            Payload::Events(_) => http::write_end(&mut &*self.stream)?,
        }
        Ok(After::Open)
    }

    fn write_json(&self, status: u16, headers: &[(String, String)], body: &Value) -> io::Result<()> {
        let body = body.to_string();
        json_head(status, headers).write_sized(&mut &*self.stream, body.len())?;
        (&*self.stream).write_all(body.as_bytes())
    }
}

fn json_head(status: u16, headers: &[(String, String)]) -> Head<'_> {
    Head { status, content_type: "application/json", headers }
}

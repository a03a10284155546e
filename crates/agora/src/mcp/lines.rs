//! Standard input and output, line by line, each a message. Whoever sends a line that is none is told so: of a request that is dropped
//! without a word nobody hears, and who made it waits for ever.

use std::io;
use std::pin::Pin;

use rmcp::RoleServer;
use rmcp::model::{ErrorData, JsonRpcError, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Empty, empty};

/// What a request has at most, by either door: an input has 1 MiB at most, and escaping may double it.
pub(crate) const REQUEST_BYTES: usize = 4 << 20;
/// What is said of a larger one.
pub(crate) const TOO_LARGE: &str = "the request is larger than 4 MiB: dispatch fewer inputs at once";
/// What is kept of a member while a line that is too long goes by. An id is shorter.
const MEMBER_BYTES: usize = 1024;
/// Some programs begin a text with it, and it means nothing.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A transport that answers also what is no message.
pub(crate) struct Lines<R, W: AsyncWrite> {
    read: BufReader<R>,
    coming: Coming,
    /// Only written to: what it would read, it would drop.
    write: AsyncRwTransport<RoleServer, Empty, W>,
    /// What is being said of the last line. Whoever receives gives up when something else happens, and goes on with this.
    reply: Option<Pin<Box<dyn Future<Output = io::Result<()>> + Send>>>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) fn new(read: R, write: W) -> Self {
        let write = AsyncRwTransport::new_server(empty(), write);
        Self { read: BufReader::new(read), coming: Coming::default(), write, reply: None }
    }

    /// Reads a line to its end. What has come of it is kept when this is given up. The last one may end with the input.
    async fn line(&mut self) -> Option<Coming> {
        loop {
            let bytes = self.read.fill_buf().await.ok()?;
            if bytes.is_empty() {
                return Some(std::mem::take(&mut self.coming)).filter(|last| !last.is_empty());
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            self.coming.take_in(&bytes[..end.unwrap_or(bytes.len())]);
            let used = end.map_or(bytes.len(), |end| end + 1);
            self.read.consume(used);
            if end.is_some() {
                return Some(std::mem::take(&mut self.coming));
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.write.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(reply) = &mut self.reply {
                let said = reply.await;
                self.reply = None;
                said.ok()?;
            }
            match self.line().await?.message() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(refused) => {
                    self.reply = Some(Box::pin(self.write.send(JsonRpcMessage::Error(refused))));
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.write.close()
    }
}

/// What has come of a line.
enum Coming {
    Kept(Vec<u8>),
    /// It is too long: it is looked at while it goes by, and not kept.
    Passing(InPassing),
}

impl Default for Coming {
    fn default() -> Self {
        Self::Kept(Vec::new())
    }
}

impl Coming {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Kept(line) if line.is_empty())
    }

    fn take_in(&mut self, bytes: &[u8]) {
        match self {
            Self::Kept(line) if line.len() + bytes.len() <= REQUEST_BYTES => line.extend_from_slice(bytes),
            Self::Kept(line) => {
                let mut passing = InPassing::default();
                passing.look_at(line);
                passing.look_at(bytes);
                *self = Self::Passing(passing);
            }
            Self::Passing(passing) => passing.look_at(bytes),
        }
    }

    /// Returns the message that a line is. `None`: it is nothing that anybody waits for an answer to.
    fn message(self) -> Result<Option<RxJsonRpcMessage<RoleServer>>, JsonRpcError> {
        match self {
            Self::Kept(line) => message(&line),
            Self::Passing(passing) => {
                Err(JsonRpcError::new(passing.request_id(), ErrorData::invalid_request(TOO_LARGE, None)))
            }
        }
    }
}

fn message(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, JsonRpcError> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return Ok(Some(message));
    }
    let Ok(other) = serde_json::from_slice::<Value>(line) else {
        let words = "the line is not JSON; every line is one message";
        return Err(JsonRpcError::new(None, ErrorData::parse_error(words, None)));
    };
    match (other.get("method"), other.get("id")) {
        (Some(_), None) => Ok(None),
        (method, id) => {
            let words = "the line is no message of the protocol: a request is an object with `jsonrpc`, `id` and `method`";
            let id = method.and(id).and_then(|id| RequestId::deserialize(id).ok());
            Err(JsonRpcError::new(id, ErrorData::invalid_request(words, None)))
        }
    }
}

/// Finds a request's id in the bytes of an object that goes by.
#[derive(Default)]
struct InPassing {
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// The outermost object's member that goes by, without what is inside of it.
    member: Vec<u8>,
    id: Option<RequestId>,
    is_request: bool,
}

/// What one member says.
#[derive(Deserialize)]
struct Member {
    id: Option<RequestId>,
    method: Option<IgnoredAny>,
}

impl InPassing {
    fn look_at(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == 1 {
                        continue;
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.member_ends();
                    }
                }
                b',' if self.depth == 1 => {
                    self.member_ends();
                    continue;
                }
                _ => {}
            }
            if self.depth == 1 && self.member.len() < MEMBER_BYTES {
                self.member.push(byte);
            }
        }
    }

    fn member_ends(&mut self) {
        let text = [b"{", &*self.member, b"}"].concat();
        if let Ok(Member { id, method }) = serde_json::from_slice(&text) {
            self.id = self.id.take().or(id);
            self.is_request |= method.is_some();
        }
        self.member.clear();
    }

    /// Returns the id, where it is a request's. That of an answer is ours, and means another request to whoever sent it.
    fn request_id(self) -> Option<RequestId> {
        self.id.filter(|_| self.is_request)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(line: &[u8]) -> Option<Value> {
        // In pieces, as it comes.
        let mut coming = Coming::default();
        line.chunks(8 * 1024).for_each(|piece| coming.take_in(piece));
        coming.message().err().map(|refused| {
            let refused = serde_json::to_value(refused).unwrap();
            json!({"id": refused["id"], "code": refused["error"]["code"]})
        })
    }

    #[test]
    fn of_a_line_that_is_too_long_the_id_is_found_wherever_it_stands() {
        let long = "x\\\"]}, ".repeat(REQUEST_BYTES / 7 + 1);
        let refused = |id: Value| Some(json!({"id": id, "code": -32600}));
        let params =
            format!(r#""params": {{"id": 3, "method": "no", "arguments": [{{"id": 4}}, "{long}"]}}"#);
        for (line, id) in [
            (format!(r#"{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", {params}}}"#), json!(7)),
            (format!(r#"{{{params}, "method": "tools/call", "id": "seven \"7\""}}"#), json!("seven \"7\"")),
            (format!(r#"{{{params}, "method": "tools/call"}}"#), json!(null)),
            (format!(r#"{{"id": 7, "result": {{"content": "{long}"}}}}"#), json!(null)),
            (format!(r#"{{"method": "tools/call", "id": "{long}"}}"#), json!(null)),
            (format!(r#"[{{"id": 7, "method": "ping", "x": "{long}"}}]"#), json!(null)),
            ("y".repeat(REQUEST_BYTES + 1), json!(null)),
        ] {
            assert_eq!(answer(line.as_bytes()), refused(id), "{line:.80}");
        }
    }

    #[tokio::test]
    async fn the_last_line_may_end_with_the_input() {
        let request = r#"{"jsonrpc": "2.0", "id": 7, "method": "ping"}"#;
        let input = format!("{request}\n\n{request}");
        let mut lines = Lines::new(input.as_bytes(), tokio::io::sink());
        assert!(lines.receive().await.is_some() && lines.receive().await.is_some());
        assert!(lines.receive().await.is_none());
    }

    #[test]
    fn nothing_is_kept_of_what_is_too_long() {
        let mut coming = Coming::default();
        for _ in 0..1000 {
            coming.take_in(&[b'{', b'"'].repeat(4096));
        }
        let Coming::Passing(passing) = coming else { panic!("it is too long") };
        assert!(passing.member.capacity() <= 2 * MEMBER_BYTES, "{}", passing.member.capacity());
    }

    #[test]
    fn what_is_no_message_is_answered_unless_nobody_waits() {
        let refused = |id: Value, code: i32| Some(json!({"id": id, "code": code}));
        let request = r#"{"jsonrpc": "2.0", "id": 7, "method": "ping"}"#;
        assert_eq!(answer(request.as_bytes()), None);
        assert_eq!(answer(format!("\u{feff}{request}\r").as_bytes()), None);
        assert_eq!(answer(b""), None);
        assert_eq!(answer(b"{not json"), refused(json!(null), -32700));
        assert_eq!(answer(&b"[".repeat(100_000)), refused(json!(null), -32700));
        assert_eq!(answer(b"{\"id\": 1, \"method\": \"\xff\"}"), refused(json!(null), -32700));
        assert_eq!(answer(format!("[{request}]").as_bytes()), refused(json!(null), -32600));
        assert_eq!(answer(br#"{"id": 7, "method": "ping"}"#), refused(json!(7), -32600));
        assert_eq!(answer(br#"{"method": "notifications/initialized"}"#), None);
    }
}

//! As much of HTTP/1.1 as the clients of models speak. Whatever is read has a cap.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};

/// Request line and headers together. Codex sends about 2 KB of them.
const HEAD_BYTES: u64 = 256 * 1024;

/// Both CLIs refuse prompts far below this.
const BODY_BYTES: u64 = 64 * 1024 * 1024;

/// One request as it came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: String,
    /// With the query.
    pub(crate) target: String,
    /// By lower-case name. What came twice is joined with a comma.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// Whether the client reads another answer on this connection.
    pub(crate) keep_alive: bool,
}

/// Why a request could not be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The connection broke, and nobody is left to be told.
    Broken,
    Malformed(&'static str),
    TooLarge,
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// Reads the next request, or `None` when the client has closed the connection after the last one. The writer is
/// there for clients that send a body only when they are told to.
pub(crate) fn read(reader: &mut impl BufRead, writer: &mut impl Write) -> Result<Option<Call>, ReadError> {
    let mut left = HEAD_BYTES;
    let Some(line) = read_line(reader, &mut left)? else { return Ok(None) };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(ReadError::Malformed("the request line has three words"));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(ReadError::Malformed("the version is HTTP/1.1"));
    }
    let headers = read_headers(reader, &mut left)?;
    let says =
        |name: &str, value: &str| headers.get(name).is_some_and(|said| said.eq_ignore_ascii_case(value));
    if says("expect", "100-continue") {
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let body = read_body(reader, &headers)?;
    let keep_alive = version == "HTTP/1.1" && !says("connection", "close");
    Ok(Some(Call { method: method.into(), target: target.into(), headers, body, keep_alive }))
}

/// Reads a line without its end, or `None` when there is nothing any more.
fn read_line(reader: &mut impl BufRead, left: &mut u64) -> Result<Option<String>, ReadError> {
    let mut line = Vec::new();
    let count = reader.take(*left).read_until(b'\n', &mut line)?;
    *left = left.saturating_sub(count as u64);
    match line.pop() {
        Some(b'\n') => {}
        _ if *left == 0 => return Err(ReadError::TooLarge),
        None => return Ok(None),
        Some(_) => return Err(ReadError::Malformed("a line ends early")),
    }
    line.pop_if(|byte| *byte == b'\r');
    let line = String::from_utf8(line).map_err(|_| ReadError::Malformed("the head is UTF-8"))?;
    Ok(Some(line))
}

fn read_headers(reader: &mut impl BufRead, left: &mut u64) -> Result<BTreeMap<String, String>, ReadError> {
    let mut headers = BTreeMap::<String, String>::new();
    loop {
        let line = read_line(reader, left)?.ok_or(ReadError::Malformed("the head ends early"))?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) = line.split_once(':').ok_or(ReadError::Malformed("a header has a colon"))?;
        headers
            .entry(name.to_ascii_lowercase())
            .and_modify(|said| {
                said.push_str(", ");
                said.push_str(value.trim());
            })
            .or_insert_with(|| value.trim().to_owned());
    }
}

fn read_body(reader: &mut impl BufRead, headers: &BTreeMap<String, String>) -> Result<Vec<u8>, ReadError> {
    match (headers.get("transfer-encoding"), headers.get("content-length")) {
        (None, None) => Ok(Vec::new()),
        (None, Some(length)) => {
            let length = length.parse().map_err(|_| ReadError::Malformed("the length is a number"))?;
            let mut body = Vec::new();
            read_exactly(reader, length, &mut body)?;
            Ok(body)
        }
        (Some(coding), None) if coding.eq_ignore_ascii_case("chunked") => read_chunks(reader),
        // Two lengths could be read in two ways.
        (Some(_), _) => Err(ReadError::Malformed("the body is chunked or has a length")),
    }
}

fn read_chunks(reader: &mut impl BufRead) -> Result<Vec<u8>, ReadError> {
    let mut body = Vec::new();
    let mut left = HEAD_BYTES;
    loop {
        // Many tiny chunks are many lines, so that only a single line is held against the cap.
        let mut line_left = HEAD_BYTES;
        let line = read_line(reader, &mut line_left)?.ok_or(ReadError::Malformed("the chunks end early"))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| ReadError::Malformed("a chunk has a size"))?;
        if size == 0 {
            read_headers(reader, &mut left)?;
            return Ok(body);
        }
        read_exactly(reader, size, &mut body)?;
        if read_line(reader, &mut line_left)?.as_deref() != Some("") {
            return Err(ReadError::Malformed("a chunk is as long as it says"));
        }
    }
}

/// Reads so many bytes more into the body. Memory is taken for what arrives, not for what was announced.
fn read_exactly(reader: &mut impl BufRead, size: u64, body: &mut Vec<u8>) -> Result<(), ReadError> {
    if size > BODY_BYTES.saturating_sub(body.len() as u64) {
        return Err(ReadError::TooLarge);
    }
    let count = reader.take(size).read_to_end(body)?;
    if (count as u64) < size { Err(ReadError::Malformed("the body ends early")) } else { Ok(()) }
}

/// What stands before the body of an answer.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) headers: &'a [(String, String)],
}

impl Head<'_> {
    /// Writes the head of an answer whose length is known.
    pub(crate) fn write_sized(&self, writer: &mut impl Write, length: usize) -> io::Result<()> {
        self.write(writer, &format!("content-length: {length}"))
    }

    /// Writes the head of an answer that comes in chunks.
    pub(crate) fn write_chunked(&self, writer: &mut impl Write) -> io::Result<()> {
        self.write(writer, "transfer-encoding: chunked")
    }

    fn write(&self, writer: &mut impl Write, framing: &str) -> io::Result<()> {
        let Self { status, content_type, headers } = self;
        let mut head = format!("HTTP/1.1 {status} Scripted\r\ncontent-type: {content_type}\r\n{framing}\r\n");
        for (name, value) in *headers {
            head.extend([name.as_str(), ": ", value.as_str(), "\r\n"]);
        }
        head.push_str("\r\n");
        writer.write_all(head.as_bytes())
    }
}

/// Writes one chunk. An empty one would be the end, so nothing is written for it.
pub(crate) fn write_chunk(writer: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    writer.write_all(&chunk)
}

/// Ends an answer that came in chunks.
pub(crate) fn write_end(writer: &mut impl Write) -> io::Result<()> {
    writer.write_all(b"0\r\n\r\n")
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;

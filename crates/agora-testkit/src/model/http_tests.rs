use proptest::prelude::*;

use super::*;

/// Reads one request and everything that may stand after it.
fn read_all(bytes: &[u8]) -> Result<Vec<Call>, ReadError> {
    let mut reader = bytes;
    let mut calls = Vec::new();
    while let Some(call) = read(&mut reader, &mut io::sink())? {
        calls.push(call);
    }
    Ok(calls)
}

fn malformed(bytes: &[u8]) -> &'static str {
    match read_all(bytes) {
        Err(ReadError::Malformed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_follow_each_other() {
    let calls = read_all(
        b"POST /a?b=c HTTP/1.1\r\nContent-Length: 3\r\nX-A: 1\r\nx-a:  2 \r\n\r\nabc\
          POST /d HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nTrailer: t\r\n\r\n\
          HEAD / HTTP/1.1\nconnection: close\n\n",
    );
    let call = |method: &str, target: &str, headers: &[(&str, &str)], body: &[u8], keep_alive| Call {
        method: method.into(),
        target: target.into(),
        headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        body: body.into(),
        keep_alive,
    };
    let expected = [
        call("POST", "/a?b=c", &[("content-length", "3"), ("x-a", "1, 2")], b"abc", true),
        call("POST", "/d", &[("transfer-encoding", "Chunked")], b"abc", true),
        call("HEAD", "/", &[("connection", "close")], b"", false),
    ];
    assert_eq!(calls.unwrap(), expected);
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let mut said = Vec::new();
    let mut reader = &b"PUT / HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\nx"[..];
    read(&mut reader, &mut said).unwrap();
    assert_eq!(said, b"HTTP/1.1 100 Continue\r\n\r\n");
}

#[test]
fn what_is_not_http_is_said_to_be_so() {
    assert_eq!(malformed(b"hello\r\n\r\n"), "the request line has three words");
    assert_eq!(malformed(b"GET / HTTP/2\r\n\r\n"), "the version is HTTP/1.1");
    assert_eq!(malformed(b"GET / HTTP/1.1\r\nno colon\r\n\r\n"), "a header has a colon");
    assert_eq!(malformed(b"GET / HTTP/1.1\r\na: b\r\n"), "the head ends early");
    assert_eq!(malformed(b"GET / HTTP/1.1\r\na: b"), "a line ends early");
    assert_eq!(malformed(b"GET / HTTP/1.1\r\na: \xff\r\n\r\n"), "the head is UTF-8");
    assert_eq!(malformed(b"GET / HTTP/1.1\r\ncontent-length: 3\r\n\r\nab"), "the body ends early");
    assert_eq!(malformed(b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n"), "the length is a number");
    let both =
        b"GET / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(malformed(both), "the body is chunked or has a length");
    let chunked = |chunks: &str| format!("GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{chunks}");
    assert_eq!(malformed(chunked("1\r\nab\r\n").as_bytes()), "a chunk is as long as it says");
    assert_eq!(malformed(chunked("x\r\n").as_bytes()), "a chunk has a size");
    assert_eq!(malformed(chunked("1\r\na\r\n").as_bytes()), "the chunks end early");
}

#[test]
fn a_giant_is_refused_before_it_is_there() {
    let head = "POST / HTTP/1.1\r\n";
    let announced = format!("{head}content-length: {}\r\n\r\n", BODY_BYTES + 1);
    let chunk = format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n", u64::MAX);
    let header = format!("{head}a: {}", "b".repeat(HEAD_BYTES as usize));
    for giant in [announced, chunk, header] {
        assert!(matches!(read_all(giant.as_bytes()), Err(ReadError::TooLarge)));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
        let _ = read_all(&bytes);
    }

    #[test]
    fn almost_http_is_read_or_refused(
        text in "((GET|POST|) (/|) HTTP/1.1\r?\n((content-length|transfer-encoding|a):? ?(chunked|[0-9]{1,22}|)\r?\n){0,3}\r?\n[0-9a-f]{0,3}(\r\n)?.{0,9}){0,3}"
    ) {
        let _ = read_all(text.as_bytes());
    }

    #[test]
    fn a_body_arrives_however_it_is_cut(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..9)) {
        let mut request = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for piece in &pieces {
            write_chunk(&mut request, piece).unwrap();
        }
        write_end(&mut request).unwrap();
        let calls = read_all(&request).unwrap();
        prop_assert_eq!(calls.len(), 1);
        prop_assert_eq!(&calls[0].body, &pieces.concat());
    }
}

//! A small HTTP client and a reader of event streams.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use ureq::http::{HeaderMap, Request};

use super::LONG;

/// A request in the making.
pub struct Call {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    patience: Duration,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Call {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Call {
        Call {
            address,
            method: method.into(),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
            patience: LONG,
        }
    }

    /// Waits no longer than this for the answer.
    pub fn within(mut self, patience: Duration) -> Call {
        self.patience = patience;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Call {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    pub fn json(self, body: &Value) -> Call {
        self.body("application/json", body.to_string())
    }

    /// A multipart body with these parts.
    pub fn parts(self, parts: &[(&str, &[u8])]) -> Call {
        let named: Vec<(&str, &str, &[u8])> = parts.iter().map(|(name, content)| (*name, "x.zip", *content)).collect();
        self.files(&named)
    }

    /// A multipart body with parts of these names, file names and contents.
    pub fn files(self, parts: &[(&str, &str, &[u8])]) -> Call {
        let mut body = Vec::new();
        for (name, file, content) in parts {
            let head =
                format!("--EDGE\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--EDGE--\r\n");
        self.body("multipart/form-data; boundary=EDGE", body)
    }

    pub fn send(self) -> Answer {
        self.answered().unwrap()
    }

    /// The answer, if the server lives to give one.
    pub fn try_send(self) -> Option<Answer> {
        self.answered().ok()
    }

    fn answered(self) -> Result<Answer, ureq::Error> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(self.patience))
            .build()
            .into();
        let mut request =
            Request::builder().method(self.method.as_str()).uri(format!("http://{}{}", self.address, self.path));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let answered = if self.method == "GET" || self.method == "HEAD" {
            agent.run(request.body(()).unwrap())
        } else {
            agent.run(request.body(self.body).unwrap())
        };
        let (head, mut body) = answered?.into_parts();
        let body = body.with_config().limit(u64::MAX).read_to_vec()?;
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The body as text, whatever it is.
    pub fn text_lossy(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value; empty when it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Status and code of an error, after a look at its envelope.
    #[track_caller]
    pub fn refusal(&self) -> (u16, String) {
        let envelope = self.json();
        let error = envelope["error"].as_object().unwrap_or_else(|| panic!("no error envelope: {envelope}"));
        let keys: Vec<&str> = error.keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "message", "details", "request_id"], "{envelope}");
        assert!(!error["message"].as_str().unwrap().is_empty());
        assert_eq!(self.header("content-type"), "application/json");
        (self.status, error["code"].as_str().unwrap().to_owned())
    }
}

/// Send these bytes as they are; everything that comes back until the server closes.
pub fn raw(address: SocketAddr, request: &[u8]) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(LONG)).unwrap();
    connection.write_all(request).unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    pub event: String,
    pub id: Option<u64>,
    pub data: String,
    /// The event as it was sent, with the empty line behind it.
    pub bytes: Vec<u8>,
}

/// An open event stream.
pub struct Sse {
    pub status: u16,
    /// Lines, in lower case.
    pub headers: Vec<String>,
    body: BufReader<Chunked>,
}

impl Sse {
    pub fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Sse {
        Sse::try_open(address, path, headers, LONG).unwrap()
    }

    /// A stream of a server that may be gone, or be silent for longer than `patience`.
    pub fn try_open(
        address: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
        patience: Duration,
    ) -> std::io::Result<Sse> {
        let mut connection = TcpStream::connect_timeout(&address, patience)?;
        connection.set_read_timeout(Some(patience))?;
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(connection, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{more}\r\n")?;
        let mut connection = BufReader::new(connection);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            connection.read_line(&mut line)?;
            if line.trim_end().is_empty() {
                break;
            }
            lines.push(line.trim_end().to_lowercase());
        }
        if lines.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let status = lines.remove(0).split(' ').nth(1).unwrap().parse().unwrap();
        // An answer without content has no chunks.
        let ended = status == 204;
        Ok(Sse { status, headers: lines, body: BufReader::new(Chunked { connection, left: 0, ended }) })
    }

    /// The next event; none at a clean end.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.try_next_event().unwrap()
    }

    /// The same of a server that may be gone. The stream is of no use after an error.
    pub fn try_next_event(&mut self) -> std::io::Result<Option<SseEvent>> {
        let mut found = SseEvent { event: String::new(), id: None, data: String::new(), bytes: Vec::new() };
        loop {
            let mut line = Vec::new();
            self.body.read_until(b'\n', &mut line)?;
            if line.is_empty() {
                assert!(found.bytes.is_empty(), "the stream ends inside an event: {found:?}");
                return Ok(None);
            }
            found.bytes.extend_from_slice(&line);
            let line = String::from_utf8(line).unwrap();
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("event", event)) => found.event = event.to_owned(),
                Some(("id", id)) => found.id = Some(id.parse().unwrap()),
                Some(("data", data)) => found.data = data.to_owned(),
                // How long to wait before coming back.
                Some(("retry", millis)) => assert!(millis.parse::<u64>().is_ok(), "{millis}"),
                None if line == "\n" => return Ok(Some(found)),
                other => panic!("{other:?} in an event stream"),
            }
        }
    }

    /// The next event of the log; snapshot and heartbeats are passed over.
    pub fn next_chat(&mut self) -> Option<Value> {
        loop {
            let event = self.next_event()?;
            if event.event == "chat_event" {
                return Some(serde_json::from_str(&event.data).unwrap());
            }
        }
    }

    /// The next event of the log for which this holds.
    pub fn until_chat(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        std::iter::from_fn(|| self.next_chat()).find(wanted).expect("such an event before the stream ends")
    }

    /// Waits until the run has this status.
    pub fn until_status(address: SocketAddr, run: &str, status: &str) {
        let mut events = Sse::open(address, &format!("/v1/jobs/{run}/events"), &[]);
        events.until_chat(|event| event["type"] == "conversation.state.changed" && event["data"]["to"] == status);
    }

    /// The rest of the log's events, to the end of the stream.
    pub fn until_end(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next_chat()).collect()
    }

    /// Waits until the connection is cut; a proper end, which says that there is nothing more, fails.
    pub fn until_cut(mut self) {
        let mut rest = Vec::new();
        let ended = self.body.read_to_end(&mut rest);
        let cut = ended.expect_err("a stream that is cut");
        assert!(!matches!(cut.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "nothing came for too long: {cut}");
    }

    /// The rest of the stream but heartbeats, to its end.
    pub fn rest(mut self) -> Vec<SseEvent> {
        std::iter::from_fn(|| self.next_event()).filter(|event| event.event != "heartbeat").collect()
    }
}

/// A body in chunks; an end without the last chunk is an error.
struct Chunked {
    connection: BufReader<TcpStream>,
    left: usize,
    ended: bool,
}

impl Read for Chunked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.left == 0 {
            let mut line = String::new();
            self.connection.read_line(&mut line)?;
            self.left = usize::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
            if self.left == 0 {
                self.ended = true;
                return Ok(0);
            }
        }
        let wanted = self.left.min(buffer.len());
        let read = self.connection.read(&mut buffer[..wanted])?;
        self.left -= read;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if self.left == 0 {
            let mut end = [0; 2];
            self.connection.read_exact(&mut end)?;
            assert_eq!(&end, b"\r\n");
        }
        Ok(read)
    }
}

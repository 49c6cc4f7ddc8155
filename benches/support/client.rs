//! The least HTTP client: one connection, one request at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

pub struct Client {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Client {
    pub fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream), address: address.to_owned() }
    }

    pub fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> (u16, Vec<u8>) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
        self.answer()
    }

    /// A request that succeeds; its answer.
    pub fn json(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, bytes) = self.send(method, path, body);
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(status < 300, "{method} {path}: {status} {value}");
        value
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stream.read_line(&mut line).unwrap(), 0, "the connection was closed");
        line
    }

    fn answer(&mut self) -> (u16, Vec<u8>) {
        let status = self.line().split_whitespace().nth(1).unwrap().parse().unwrap();
        let (mut length, mut chunked) = (0, false);
        loop {
            let header = self.line().trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            chunked |= header == "transfer-encoding: chunked";
        }
        let mut body = Vec::new();
        if chunked {
            loop {
                let size = usize::from_str_radix(self.line().trim(), 16).unwrap();
                let from = body.len();
                body.resize(from + size, 0);
                self.stream.read_exact(&mut body[from..]).unwrap();
                self.stream.read_exact(&mut [0; 2]).unwrap();
                if size == 0 {
                    break;
                }
            }
        } else {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).unwrap();
        }
        (status, body)
    }
}

/// The lines of a run's event stream as they come, until it ends or `take` says no more.
pub fn follow(address: &str, path: &str, mut take: impl FnMut(&str) -> bool) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::with_capacity(256 * 1024, stream);
    let mut line = String::new();
    while lines.read_line(&mut line).unwrap() > 0 {
        if !take(line.trim_end()) {
            return;
        }
        line.clear();
    }
}

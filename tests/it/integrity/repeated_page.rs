//! A service that lists the same runs again and again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::json;

use crate::cli::place::Place;
use crate::support::Call;

/// Answers everything with this page, but the list of runs not more often than this. Its address, and how often it was asked for the list.
fn answering(page: String, most: usize) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let is_list = head.starts_with("GET /v1/jobs?");
            let before = if is_list { counted.fetch_add(1, Ordering::Relaxed) } else { 0 };
            let status = if before < most { "200 OK" } else { "404 Not Found" };
            let length = page.len();
            let head = "content-type: application/json\r\nconnection: close";
            let _ = write!(connection, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{head}\r\n\r\n{page}");
        }
    });
    (address, asked)
}

#[test]
fn verify_ends_with_an_error_where_a_service_repeats_a_page() {
    let place = Place::new();
    let run = place.finished_run();
    let (service, line) = place.start(&["serve", "--port", "0"], "listening on ");
    let address = line.strip_prefix("listening on http://").unwrap().parse().unwrap();
    let page = Call::new(address, "GET", "/v1/jobs").send().text();
    service.signal(Signal::TERM);
    service.end();
    // As of a run that is not over, so that nothing is asked for but the list.
    let page = page.replace("\"succeeded\"", "\"queued\"");
    assert!(page.contains(&run) && page.contains("\"queued\""), "{page}");
    let (address, asked) = answering(page, 10);
    let announced = json!({"url": format!("http://{address}"), "pid": std::process::id()});
    fs::write(place.path().join("data/service.json"), announced.to_string()).unwrap();
    // The folder is in use, as by the service whose address that is.
    let lock = fs::File::open(place.path().join("data/LOCK")).unwrap();
    lock.lock().unwrap();
    let ran = place.run(&["verify"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let told = format!("the list of runs does not go on: {run} is not older than {run}");
    assert!(ran.stderr.contains(&told), "{ran:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

//! Many clients at once: cached hits, and readers of one live run.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::figure::Figure;
use crate::service::{run_files, store_bytes};
use crate::setup::{Setup, at_once, until};

/// Runs that equal one that succeeded, by 32 clients that keep their connections, against plain requests of the same.
pub fn cached(setup: &Setup<'_>) -> Vec<Figure> {
    const CLIENTS: usize = 32;
    let each = setup.count(100, 20);
    let gets_each = each * 10;
    let service = setup.serve(&[]);
    let body = json!({"skill_id": "noop"});
    let first = service.client().json("POST", "/v1/jobs?wait=60", Some(&body));
    assert_eq!(first["status"], "succeeded", "{first}");

    let gets = || {
        let seconds = at_once(CLIENTS, || {
            let mut client = service.client();
            (0..gets_each).for_each(|_| assert_eq!(client.send("GET", "/healthz", None).0, 200));
        });
        (CLIENTS * gets_each) as f64 / seconds
    };
    let gets_before = gets();
    let (files, store) = (run_files(&service.data()), store_bytes(&service.data()));
    let seconds = at_once(CLIENTS, || {
        let mut client = service.client();
        (0..each).for_each(|_| {
            let created = client.json("POST", "/v1/jobs?wait=60", Some(&body));
            assert!(created["cache_hit"] == true && created["status"] == "succeeded", "{created}");
        });
    });
    let hits = (CLIENTS * each) as f64;
    // A hit ends with its log sealed beside its result.
    let mut counted = run_files(&service.data());
    until("the last hit's files are written", Duration::from_secs(60), || {
        std::thread::sleep(Duration::from_millis(500));
        let now = run_files(&service.data());
        std::mem::replace(&mut counted, now) == now
    });
    let (files_now, store_now) = (counted, store_bytes(&service.data()));
    let gets = (gets_before + gets()) / 2.0;
    let per_hit = |before: u64, now: u64| now.saturating_sub(before) as f64 / hits;
    let in_folder = per_hit(files.bytes, files_now.bytes) / 1e3;
    let in_store = per_hit(store, store_now) / 1e3;
    vec![
        Figure::new("cached hits, 32 clients", "/s", hits / seconds).limit("GET /healthz", gets).at_least(3_000.0),
        Figure::new("cached hit on disk", "kB", in_folder + in_store).at_most(10.0).note(format!(
            "{in_folder:.1} in {:.1} inodes of its folder, {in_store:.1} in the store",
            per_hit(files.inodes, files_now.inodes)
        )),
    ]
}

/// Five hundred readers of one live run; every stream must be whole.
pub fn readers(setup: &Setup<'_>) -> Vec<Figure> {
    let readers = setup.count(500, 100);
    let service = setup.serve(&[]);
    let mut client = service.client();
    let created = client.json("POST", "/v1/jobs", Some(&json!({"skill_id": "live"})));
    let run = created["run_id"].as_str().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let connected = Arc::new(AtomicU64::new(0));
    let watching: Vec<_> =
        (0..readers).map(|_| runtime.spawn(follow(service.address.clone(), run.clone(), connected.clone()))).collect();
    until("all readers are there", Duration::from_secs(30), || connected.load(Ordering::Relaxed) == readers as u64);
    fs::write(service.data().join("runs").join(&run).join("go"), "").unwrap();
    let began = Instant::now();
    let counts: Vec<u64> = runtime.block_on(async {
        let mut counts = Vec::new();
        for reader in watching {
            counts.push(reader.await.unwrap());
        }
        counts
    });
    let seconds = began.elapsed().as_secs_f64();
    let expected = client.json("GET", &format!("/v1/jobs/{run}"), None)["head_seq"].as_u64().unwrap();
    assert!(counts.iter().all(|count| *count == expected), "every stream is whole: {expected} of {counts:?}");
    let total: u64 = counts.iter().sum();
    vec![
        Figure::new(format!("{readers} readers of one live run"), "events/s", total as f64 / seconds)
            .at_least(200_000.0)
            .note(format!("every stream whole, {expected} events each")),
    ]
}

/// Follows a run to its end; the number of events, which must come without a hole.
async fn follow(address: String, run: String, connected: Arc<AtomicU64>) -> u64 {
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    let head = format!("GET /v1/jobs/{run}/events HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut seen, mut begun) = (0u64, false);
    let mut chunk = vec![0; 256 * 1024];
    let mut held = Vec::new();
    loop {
        let read = stream.read(&mut chunk).await.unwrap();
        if read == 0 {
            return seen;
        }
        if !std::mem::replace(&mut begun, true) {
            connected.fetch_add(1, Ordering::Relaxed);
        }
        held.extend_from_slice(&chunk[..read]);
        // Events are counted by their ids; whatever the chunked encoding puts between lines does not begin so.
        let whole = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in held[..whole].split(|byte| *byte == b'\n') {
            if let Some(id) = line.strip_prefix(b"id: ") {
                let seq: u64 = std::str::from_utf8(id).unwrap().trim().parse().unwrap();
                seen += 1;
                assert_eq!(seq, seen, "no hole");
            }
        }
        held.drain(..whole);
    }
}

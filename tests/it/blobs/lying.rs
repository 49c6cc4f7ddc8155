//! An object store that lies: whatever it answers, an operation ends in little memory, touches nothing else, and what comes is what was
//! asked for, or an error.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use skill_runner::blobs::{self, Blobs, Error};
use skill_runner::settings::Settings;

use super::contract;

/// Longer than any of these may take.
const IN_TIME: Duration = Duration::from_secs(60);

/// What a request asked: method and path with its query.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

/// A server that writes to each connection what `answer` gives for its request, and closes it.
fn server(answer: impl Fn(&str, &str) -> Vec<u8> + Send + Sync + 'static) -> (SocketAddr, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Asked::default());
    let (answer, told) = (Arc::new(answer), asked.clone());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let (answer, told) = (answer.clone(), told.clone());
            std::thread::spawn(move || {
                let Some((method, path)) = request(&connection) else { return };
                told.lock().unwrap().push((method.clone(), path.clone()));
                // Whoever has heard enough closes the connection.
                let _ = (&connection).write_all(&answer(&method, &path));
            });
        }
    });
    (address, asked)
}

fn request(connection: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(connection);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    let mut words = first.split(' ');
    Some((words.next()?.to_owned(), words.next()?.to_owned()))
}

fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn open(address: SocketAddr) -> Arc<dyn Blobs> {
    let variables = [
        ("SKILL_RUNNER_BLOBS", "s3://bucket/files".to_owned()),
        ("AWS_ENDPOINT_URL", format!("http://{address}")),
        ("AWS_ACCESS_KEY_ID", "id".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ];
    let variables: BTreeMap<_, _> = variables.map(|(name, value)| (name.to_owned(), value)).into();
    blobs::open(&Settings::load(None, &variables, &[], 1).unwrap().several.blobs.unwrap()).unwrap()
}

/// What a list comes to, and that it does so in time.
async fn listed(address: SocketAddr) -> Result<Vec<blobs::Listed>, Error> {
    let began = Instant::now();
    let listed = open(address).list(None, 500).await;
    assert!(began.elapsed() < IN_TIME, "{:?}", began.elapsed());
    listed
}

fn page(path: &str, entries: &str) -> Vec<u8> {
    if path.contains("uploads") {
        return answer(200, "", b"<ListMultipartUploadsResult/>");
    }
    let body = format!("<ListBucketResult><IsTruncated>true</IsTruncated>{entries}</ListBucketResult>");
    answer(200, "date: Wed, 18 Nov 2026 11:35:55 GMT\r\n", body.as_bytes())
}

#[tokio::test]
async fn a_list_without_an_end_is_given_up() {
    let (address, asked) = server(|_, path| {
        let behind = path.split("start-after=").nth(1).and_then(|rest| rest.split('&').next()).unwrap_or("");
        let number: u64 = behind.rsplit("zz").next().and_then(|number| number.parse().ok()).unwrap_or(0);
        page(path, &format!("<Contents><Key>files/sha256/zz{:020}</Key></Contents>", number + 1))
    });
    let refused = listed(address).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unusable { reason, .. } if reason.contains("its list has no end")),
        "{refused:?}"
    );
    let pages = asked.lock().unwrap().iter().filter(|(_, path)| path.contains("list-type")).count();
    assert!((100..5000).contains(&pages), "{pages} pages");
}

#[tokio::test]
async fn answers_of_the_longest_length_are_read_in_time_and_in_little_memory() {
    for (what, piece) in
        [("references", "&"), ("elements", "<b/>"), ("open elements", "<b>"), ("comments", "<!--"), ("text", "x")]
    {
        let (address, _) = server(move |_, path| page(path, &piece.repeat((7 << 20) / piece.len())));
        // An empty list, or no list.
        let told = listed(address).await;
        assert!(
            matches!(&told, Ok(found) if found.is_empty()) || matches!(&told, Err(Error::Unusable { .. })),
            "{what}: {told:?}"
        );
    }
    // Longer than anything that is kept, with and without a length that is told.
    for head in ["content-length: 9000000000\r\n", "", "transfer-encoding: chunked\r\n"] {
        let (address, _) = server(move |_, _| {
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\n");
            [head.as_bytes(), &b"5f5e100\r\n"[..], &vec![b'x'; 12 << 20]].concat()
        });
        let told = listed(address).await.unwrap_err();
        assert!(matches!(told, Error::Unreachable { .. }), "{head}: {told:?}");
    }
}

#[tokio::test]
async fn more_than_was_asked_for_is_not_taken() {
    let (address, _) = server(|_, path| {
        let entry = |n: usize| {
            let name = format!("{n:064x}");
            format!(
                "<Contents><Key>files/sha256/00/{name}</Key><Size>1</Size><LastModified>2026-11-18T10:00:00Z</LastModified></Contents>"
            )
        };
        page(path, &(0..9000).map(entry).collect::<String>())
    });
    assert_eq!(listed(address).await.unwrap().len(), 500);
}

/// A key becomes part of the address of a signed request.
#[tokio::test]
async fn an_upload_that_is_no_shared_file_is_left_alone_whatever_its_key_is() {
    let hash = "ab".repeat(32);
    let keys = [
        format!("files/sha256/ab/{hash}"),
        "files/sha256/../../other/key".to_owned(),
        "files/sha256/x?versionId=1&amp;y=".to_owned(),
        format!("files/sha256/ab/{hash}/../../../../other"),
        "files/sha256/%2e%2e/%2e%2e".to_owned(),
        format!("files/sha256/ac/{hash}"),
        "files/sha256/a b\r\nx: y".to_owned(),
        "elsewhere".to_owned(),
    ];
    let (address, asked) = server(move |method, path| match (method, path.contains("uploads")) {
        ("GET", true) => {
            let upload = |key: &String| {
                format!(
                    "<Upload><Key>{key}</Key><UploadId>u</UploadId><Initiated>2020-01-01T00:00:00Z</Initiated></Upload>"
                )
            };
            let uploads: String = keys.iter().map(upload).collect();
            let body = format!("<ListMultipartUploadsResult>{uploads}</ListMultipartUploadsResult>");
            answer(200, "date: Wed, 18 Nov 2026 11:35:55 GMT\r\n", body.as_bytes())
        }
        ("GET", false) => answer(200, "", b"<ListBucketResult/>"),
        _ => answer(204, "", b""),
    });
    assert_eq!(listed(address).await.unwrap(), []);
    let changed: Vec<_> = asked.lock().unwrap().iter().filter(|(method, _)| method != "GET").cloned().collect();
    assert_eq!(changed, [("DELETE".to_owned(), format!("/bucket/files/sha256/ab/{hash}?uploadId=u"))]);
}

#[tokio::test]
async fn content_that_is_not_what_was_asked_for_is_not_given_on_and_no_redirect_is_followed() {
    let content = contract::content(100_000);
    let blob = contract::blob_of(&content);
    let other = [&content[1..], b"x"].concat();
    let range = "content-range: bytes 0-99999/100000\r\n";
    let (elsewhere, visits) =
        server(|_, _| answer(206, "content-range: bytes 0-99999/100000\r\n", &contract::content(100_000)));
    let lies = [
        ("another content", answer(206, range, &other)),
        ("less than was told", answer(206, range, &content[..99_999])),
        ("more than was asked for", answer(206, range, &[&content[..], b"x"].concat())),
        ("another length", answer(206, "content-range: bytes 0-99999/99999999999999999999\r\n", &other)),
        ("all at once", answer(200, "", &content)),
        ("nothing", answer(206, range, b"")),
        ("a refusal with the content", answer(403, "", &content)),
        ("a redirect", answer(307, &format!("location: http://{elsewhere}/x\r\n"), b"")),
        ("an error as content", answer(200, "", b"<Error><Code>NoSuchKey</Code></Error>")),
    ];
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("target");
    for (what, said) in lies {
        let (address, _) = server(move |_, _| said.clone());
        let blobs = open(address);
        assert!(blobs.read(&blob).await.is_err(), "{what}");
        assert!(blobs.fetch(&blob, &target).await.is_err() && !target.exists(), "{what}");
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "{what} left a file");
    }
    assert_eq!(visits.lock().unwrap().len(), 0, "a redirect was followed");
    let (address, _) = server(move |_, _| answer(206, range, &content));
    assert_eq!(open(address).read(&blob).await.unwrap().len(), 100_000);
}

//! A real object store that speaks S3 (SeaweedFS) on a scratch folder and free ports.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{LONG, left_out, postgres, tools};

pub const BUCKET: &str = "shared";
pub const KEY_ID: &str = "id-of-the-test-key";
pub const SECRET: &str = "secret-of-the-test-key";
/// A key that may read and list alone.
pub const READER: (&str, &str) = ("id-of-the-reader", "secret-of-the-reader");

/// Ends the server when this process ends, in whatever way, and removes its folder.
const GUARDED: &str = r#"
dir=$1; shift
"$@" >"$dir/log" 2>&1 &
server=$!
trap 'kill -KILL $server 2>/dev/null' TERM INT
wait $server
wait $server
rm -rf "$dir"
"#;

pub struct ObjectStore {
    dir: PathBuf,
    pub address: SocketAddr,
    /// Its other API, for which objects are files.
    files: SocketAddr,
    /// It ends with the test.
    _process: Child,
}

/// The one that all tests share; each takes a prefix of its own. None where it cannot be had, which is said.
pub fn shared(test: &str) -> Option<&'static ObjectStore> {
    static STORE: OnceLock<Option<ObjectStore>> = OnceLock::new();
    let started = STORE.get_or_init(|| tools::object_store(test).map(|program| ObjectStore::start(&program)));
    if started.is_none() {
        left_out::tell("no object store", test);
    }
    started.as_ref()
}

/// A prefix that no other test uses.
pub fn fresh() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("t{}/files", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Addresses that nobody listens on, below the ports that the system gives to whoever asks for any: one of those may be taken before the
/// server listens on it.
fn free_addresses() -> Vec<SocketAddr> {
    let first = 12_000 + u16::try_from(std::process::id() % 1_800).unwrap() * 10;
    let all = (first..u16::MAX).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    all.filter(|address| TcpListener::bind(address).is_ok()).take(8).collect()
}

impl ObjectStore {
    fn start(program: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("skill-runner-s3-").tempdir().unwrap().keep();
        let addresses = free_addresses();
        let identity = |(id, secret): (&str, &str), actions: &[&str]| json!({"name": id, "actions": actions, "credentials": [{"accessKey": id, "secretKey": secret}]});
        let all = identity((KEY_ID, SECRET), &["Admin", "Read", "List", "Tagging", "Write"]);
        let identities = json!({"identities": [all, identity(READER, &["Read", "List"])]});
        fs::write(dir.join("s3.json"), identities.to_string()).unwrap();
        let mut shell = Command::new("setpriv");
        shell.args(["--pdeathsig", "TERM", "sh", "-c", GUARDED, "sh"]).arg(&dir).arg(program).arg("server");
        shell.arg(format!("-dir={}", dir.display())).arg(format!("-s3.config={}", dir.join("s3.json").display()));
        shell.args([
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            "-filer",
            "-s3",
            "-s3.iam=false",
            "-s3.autoCreateBucket=false",
        ]);
        shell.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=0", "-master.volumeSizeLimitMB=64"]);
        let ports = ["master.port", "volume.port", "filer.port", "s3.port"]
            .map(|name| [name.to_owned(), format!("{name}.grpc")]);
        for (name, address) in ports.as_flattened().iter().zip(&addresses) {
            shell.arg(format!("-{name}={}", address.port()));
        }
        shell
            .stdin(Stdio::null())
            .current_dir(&dir)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        shell.env("HOME", &dir);
        let process = postgres::spawned_for_good(shell);
        let store = ObjectStore { dir, address: addresses[6], files: addresses[4], _process: process };
        let made = Instant::now();
        let has_bucket = || store.file("POST", "", b"").is_some_and(|(status, _)| [201, 409].contains(&status));
        while !(store.answers() && has_bucket()) {
            let said = fs::read_to_string(store.dir.join("log")).unwrap_or_default();
            assert!(made.elapsed() < LONG, "the object store does not answer: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
        store
    }

    fn answers(&self) -> bool {
        self.call(self.address, "GET", "/", b"").is_some_and(|(status, _)| status == 403)
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What happens to the object as a file: one request to the other API.
    pub fn file(&self, method: &str, key: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        self.call(self.files, method, &format!("/buckets/{BUCKET}/{key}"), body)
    }

    /// The names in a folder, and when each was written.
    pub fn folder(&self, key: &str) -> Vec<(String, String)> {
        let (status, body) = self.file("GET", &format!("{key}/"), b"").unwrap();
        if status == 404 {
            return Vec::new();
        }
        let listed: Value = serde_json::from_slice(&body).unwrap();
        let entries = listed["Entries"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
        let name = |path: String| path.rsplit_once('/').unwrap().1.to_owned();
        entries.iter().map(|entry| (name(text(entry, "FullPath")), text(entry, "Mtime"))).collect()
    }

    fn call(&self, address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(address).ok()?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAccept: application/json\r\nConnection: close\r\n\
             {}Content-Length: {}\r\n\r\n",
            // A folder is made by a request without a type.
            if method == "PUT" { "Content-Type: application/octet-stream\r\n" } else { "" },
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(body).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let status = String::from_utf8_lossy(&answer[..end]).split(' ').nth(1)?.parse().ok()?;
        Some((status, answer[end + 4..].to_vec()))
    }
}

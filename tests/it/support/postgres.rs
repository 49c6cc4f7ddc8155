//! A real PostgreSQL server on a scratch folder and a free port, and a proxy that cuts its connections.

use std::fs;
use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use super::{LONG, left_out};

const PASSWORD: &str = "not-a-secret";

/// Ends the server when this process ends, in whatever way, and removes its folder.
const GUARDED: &str = r#"
dir=$1; shift
"$@" >"$dir/log" 2>&1 &
server=$!
trap 'kill -INT $server 2>/dev/null' TERM INT
wait $server
wait $server
rm -rf "$dir"
"#;

/// A server of PostgreSQL.
pub struct Server {
    dir: PathBuf,
    port: u16,
    programs: PathBuf,
    running: Mutex<Option<Child>>,
}

/// The folder of its programs, if it is installed.
pub fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    found.splice(0..0, std::env::split_paths(&path).collect::<Vec<_>>());
    found.into_iter().rev().find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
}

/// Whether the tests that need a server can run. Those that cannot say so; with `POSTGRES_TEST_REQUIRED` they fail.
pub fn installed(test: &str) -> bool {
    if programs().is_some() {
        return true;
    }
    let advice = "PostgreSQL is not installed (Debian: postgresql)";
    assert!(std::env::var_os("POSTGRES_TEST_REQUIRED").is_none(), "{test} cannot run: {advice}");
    left_out::tell(advice, test);
    false
}

/// The server that most tests share; each takes a schema of its own.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&[]))
}

/// A name that no other test uses.
pub fn fresh() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server refuses to be root: as whom it runs.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if rustix::process::getuid().is_root() {
        let known = fs::read_to_string("/etc/passwd").unwrap().lines().any(|line| line.starts_with("postgres:"));
        let user = if known { "postgres" } else { "nobody" };
        command.args(["--reuid", user, "--clear-groups"]);
        command.args(["--regid", if known { "postgres" } else { "nogroup" }]);
    }
    command.args(["--pdeathsig", "TERM"]).arg(program);
    command.current_dir("/").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
    command
}

fn succeeds(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&ran.stdout[..], &ran.stderr[..]].map(String::from_utf8_lossy).join("\n");
    assert!(ran.status.success(), "{command:?}: {said}");
    said
}

impl Server {
    /// A new one, with more lines in its configuration.
    pub fn start(settings: &[&str]) -> Server {
        let programs = programs().unwrap();
        let dir = tempfile::Builder::new().prefix("skill-runner-pg-").tempdir().unwrap().keep();
        let owned = |path: &Path| {
            if rustix::process::getuid().is_root() {
                let known = fs::read_to_string("/etc/passwd").unwrap().contains("\npostgres:");
                succeeds(Command::new("chown").arg(if known { "postgres" } else { "nobody" }).arg(path));
            }
        };
        owned(&dir);
        let password = dir.join("password");
        fs::write(&password, PASSWORD).unwrap();
        owned(&password);
        let mut initdb = as_user(&programs.join("initdb"));
        initdb.arg("-D").arg(dir.join("data")).args(["-U", "runner", "-E", "UTF8", "--locale=C", "--no-sync"]);
        succeeds(initdb.args(["--auth=scram-sha-256"]).arg(format!("--pwfile={}", password.display())));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut text = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 300\n\
             shared_buffers = 32MB\nmax_wal_size = 256MB\n"
        );
        settings.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        let conf = dir.join("data/postgresql.conf");
        let usual = fs::read_to_string(&conf).unwrap();
        fs::write(&conf, usual + &text).unwrap();
        let server = Server { dir, port, programs, running: Mutex::default() };
        server.run();
        server
    }

    /// A copy of it that follows it, and takes no writes.
    pub fn replica_of(first: &Server) -> Server {
        let dir = tempfile::Builder::new().prefix("skill-runner-pg-").tempdir().unwrap().keep();
        let reference = format!("--reference={}", first.dir.display());
        succeeds(Command::new("chown").arg(reference).arg(&dir));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut copy = as_user(&first.programs.join("pg_basebackup"));
        copy.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-h", "127.0.0.1", "-U", "runner", "-p"]);
        succeeds(copy.arg(first.port.to_string()).arg("-D").arg(dir.join("data")).env("PGPASSWORD", PASSWORD));
        let conf = dir.join("data/postgresql.conf");
        let usual = fs::read_to_string(&conf).unwrap();
        fs::write(&conf, format!("{usual}port = {port}\nsynchronous_standby_names = ''\n")).unwrap();
        let server = Server { dir, port, programs: first.programs.clone(), running: Mutex::default() };
        server.run();
        server
    }

    /// Makes a replica the one that takes writes.
    pub fn promote(&self) {
        assert_eq!(self.sql("select pg_promote()"), "t");
    }

    /// Its folder, for files that it is to read.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// The URL of a schema, at another address if one is given.
    pub fn url_at(&self, address: SocketAddr, schema: &str) -> String {
        format!("postgres://runner:{PASSWORD}@{address}/postgres?schema={schema}")
    }

    pub fn url(&self, schema: &str) -> String {
        self.url_at(self.address(), schema)
    }

    /// Runs it and waits until it answers. It belongs to a thread that lives as long as the process: a server ends when the
    /// thread does that started it.
    pub fn run(&self) {
        let mut shell = as_user(Path::new("sh"));
        shell.args(["-c", GUARDED, "sh"]).arg(&self.dir).arg(self.programs.join("postgres"));
        shell.arg("-D").arg(self.dir.join("data")).stdin(Stdio::null());
        *self.running.lock().unwrap() = Some(spawned_for_good(shell));
        let began = Instant::now();
        while !self.answers() {
            assert!(began.elapsed() < LONG, "the server does not answer: {}", self.said());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn answers(&self) -> bool {
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]).status().unwrap().success()
    }

    /// What the server has logged.
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Ends it as a crash of the machine would: no connection is told, nothing is written.
    pub fn crash(&self) {
        self.signal("-QUIT");
    }

    /// Ends it in order, which cuts all connections.
    pub fn end(&self) {
        self.signal("-INT");
    }

    fn signal(&self, signal: &str) {
        let pid_file = fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        let pid = pid_file.lines().next().unwrap().to_owned();
        // The guard removes the folder when the server ends: it is ended first.
        let mut guard = self.running.lock().unwrap().take().unwrap();
        guard.kill().unwrap();
        guard.wait().unwrap();
        succeeds(Command::new("kill").args([signal, &pid]));
        let began = Instant::now();
        while Path::new(&format!("/proc/{pid}")).exists() {
            assert!(began.elapsed() < LONG, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_file(self.dir.join("data/postmaster.pid"));
    }

    /// Runs SQL and returns what it printed.
    pub fn sql(&self, text: &str) -> String {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        psql.args(["-U", "runner", "-d", "postgres", "-c", text]).env("PGPASSWORD", PASSWORD);
        succeeds(&mut psql).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut guard) = self.running.lock().unwrap().take() {
            let _ = Command::new("kill").args(["-TERM", &guard.id().to_string()]).status();
            let _ = guard.wait();
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

pub(super) fn spawned_for_good(command: Command) -> Child {
    type Order = (Command, mpsc::Sender<Child>);
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, taken) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn().unwrap());
            }
        });
        Mutex::new(orders)
    });
    let (answer, spawned) = mpsc::channel();
    spawner.lock().unwrap().send((command, answer)).unwrap();
    spawned.recv().unwrap()
}

/// When a proxy cuts a connection.
type Cut = dyn Fn(&[u8]) -> When + Send + Sync;

/// What to do with bytes on their way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Hand them on.
    Pass,
    /// Cut the connection before the server has them.
    Before,
    /// Cut it after the server has them, and hand on no answer.
    After,
    /// Hand on nothing more in either direction, and leave the connection open.
    Swallow,
}

/// A proxy in front of a server.
pub struct Proxy {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
    refusing: Arc<AtomicBool>,
    stalled: Arc<AtomicBool>,
    pub cuts: Arc<AtomicUsize>,
}

impl Proxy {
    /// Hands on what `when` lets through.
    pub fn to(server: SocketAddr, when: impl Fn(&[u8]) -> When + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (refusing, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let stalled = Arc::new(AtomicBool::new(false));
        let when: Arc<Cut> = Arc::new(when);
        let (held, refused, counted) = (connections.clone(), refusing.clone(), cuts.clone());
        let silent = stalled.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if refused.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                held.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                let (muted, swallowed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (when, counted, ways) =
                    (when.clone(), counted.clone(), [muted.clone(), swallowed.clone(), silent.clone()]);
                std::thread::spawn(move || {
                    forward(from, to, &ways, |bytes| {
                        let cut = when(bytes);
                        if cut != When::Pass {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        cut
                    })
                });
                let ways = [muted, swallowed, silent.clone()];
                std::thread::spawn(move || forward(server, client, &ways, |_| When::Pass));
            }
        });
        Proxy { address, connections, refusing, stalled, cuts }
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Cuts one of the connections.
    pub fn cut_one(&self, which: u64) {
        let mut connections = self.connections.lock().unwrap();
        // Those that have ended are still listed, so the one is looked for among the others.
        connections.retain(|connection| connection.peer_addr().is_ok());
        if !connections.is_empty() {
            let at = which as usize % connections.len();
            let _ = connections.swap_remove(at).shutdown(Shutdown::Both);
        }
    }

    /// Hands nothing on and closes nothing, as a network that swallows everything does, or hands on what it held back.
    pub fn stall(&self, stall: bool) {
        self.stalled.store(stall, Ordering::SeqCst);
    }

    /// Takes no connections, or takes them again.
    pub fn refuse(&self, refuse: bool) {
        self.refusing.store(refuse, Ordering::Relaxed);
        if refuse {
            self.cut();
        }
    }
}

/// Hands on bytes until one end closes. Nothing is handed on once the other way is muted, and nothing while the proxy is stalled.
fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    [muted, swallowed, stalled]: &[Arc<AtomicBool>; 3],
    when: impl Fn(&[u8]) -> When,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        while stalled.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if count == 0 || muted.load(Ordering::SeqCst) {
            break;
        }
        if swallowed.load(Ordering::SeqCst) {
            continue;
        }
        match when(&buffer[..count]) {
            When::Pass if to.write_all(&buffer[..count]).is_ok() => {}
            When::After => {
                // The client learns nothing; the server gets all, and then the end.
                muted.store(true, Ordering::SeqCst);
                let _ = to.write_all(&buffer[..count]);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            When::Swallow => swallowed.store(true, Ordering::SeqCst),
            When::Pass | When::Before => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

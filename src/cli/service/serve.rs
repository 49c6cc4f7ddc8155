//! `serve`: runs the HTTP service until a signal stops it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::cli::connect::{data_folder, service_address};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::runtime::{give_back_what_the_start_needed, runtime};
use crate::cli::service::banner;
use crate::cli::stop_signals::Stop;
use crate::cli::terminal::output;
use crate::domain::codes::Exit;
use crate::files::{self, Shortage};
use crate::http;
use crate::orchestrator::{Clock, Orchestrator, WallClock};
use crate::registry::{Registry, builtin};
use crate::settings::{Problem, Settings};
use crate::workspace::{Layout, Tokens};

/// How long open connections may take to end once no run is left.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Serves the HTTP API until SIGTERM, SIGINT or SIGHUP
///
/// After the first signal no new run is started; running engines get drain_grace_seconds to finish and are then ended.
/// A second signal ends the service at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner serve --port 0 --data-dir /var/lib/skill-runner")]
pub(crate) struct Args {
    /// Address to listen on [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    host: Option<String>,
    /// Port to listen on; 0 chooses a free one [default: 8000]
    #[arg(long)]
    port: Option<String>,
    /// Answer requests and start no runs: others that share the store do
    #[arg(long)]
    no_work: bool,
}

/// Works on runs of a store that several services share, without an API, until SIGTERM, SIGINT or SIGHUP
///
/// It takes runs from the queue that all services share. Needs a database as store, and blobs. What the signals do is the same as
/// with `serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  skill-runner worker --data-dir /var/lib/skill-runner")]
pub(crate) struct WorkerArgs {}

/// What a service is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Answers requests, and starts runs unless the settings say otherwise.
    Api,
    /// Starts runs and answers nobody.
    Worker,
}

pub(crate) fn serve(global: &Global, args: &Args) -> Result<(), Failure> {
    let work = args.no_work.then(|| "off".to_owned());
    let settings = global.settings(&[("host", args.host.clone()), ("port", args.port.clone()), ("work", work)])?;
    if !data_folder::is_shared(&settings) {
        check_reach(&settings, false)?;
    }
    if !settings.several.work && !data_folder::is_shared(&settings) {
        return Err(data_folder::not_shared("work", "nobody else could start the runs of this service"));
    }
    start(settings, Role::Api)
}

pub(crate) fn work(global: &Global, _args: &WorkerArgs) -> Result<(), Failure> {
    let settings = global.settings(&[("work", Some("on".to_owned()))])?;
    if !data_folder::is_shared(&settings) {
        return Err(data_folder::not_shared(
            "blobs",
            "a worker without an API is of use only where several services share a store",
        ));
    }
    start(settings, Role::Worker)
}

fn start(settings: Settings, role: Role) -> Result<(), Failure> {
    let closed = data_folder::close(&settings)?;
    // Before the log, which has a thread of its own: it says what is wrong where threads cannot be started.
    let runtime = runtime()?;
    let access_written = logging::to_file(&settings.log, settings.log.level).map_err(|error| {
        if Shortage::behind(&error) == Some(Shortage::Processes) {
            return Failure::broken("open the logs")(error);
        }
        let (key, place) = ("log_file".to_owned(), settings.log.file.display().to_string());
        Failure::Configuration(vec![Problem { key, place, message: format!("cannot be written: {error}") }])
    })?;
    closed.report();
    // Runs do not see it. One that is made while they are at work they would see, with all that is in it; where it cannot be made, there
    // are no backups either.
    let _ = files::create_private_folder(&settings.paths.backup_dir);
    if let Err(error) = files::raise_open_files() {
        warn!(%error, "the limit of open files cannot be raised");
    }
    let ended = runtime.block_on(async {
        match role {
            Role::Api => serve_until_told(settings).await,
            Role::Worker => work_until_told(settings).await,
        }
    });
    // No run is left. What threads still do for a client, such as an export of many gigabytes, is not waited for.
    runtime.shutdown_background();
    drop(access_written);
    ended
}

/// Refuses an address that others can reach if nobody could be told apart there: a token must be set, or one with a name be made.
/// `any_shared` tells of named tokens that services share.
fn check_reach(settings: &Settings, any_shared: bool) -> Result<(), Failure> {
    let host = settings.http.host;
    let tokens = Tokens::new(Layout::new(&settings.paths.data_dir));
    if host.is_loopback() || settings.http.token.is_some() || any_shared || tokens.any_opens(WallClock.now()) {
        return Ok(());
    }
    let source =
        settings.describe().iter().find(|described| described.key == "host").map(|found| found.source.to_string());
    let message = format!(
        "{host} can be reached from other machines: set token (SKILL_RUNNER_TOKEN) as well, or make a named one with skill-runner token new NAME --scope read|run|admin"
    );
    Err(Failure::Configuration(vec![Problem { key: "host".to_owned(), place: source.unwrap_or_default(), message }]))
}

pub(crate) async fn listen(settings: &Settings, any_shared: bool) -> Result<(TcpListener, SocketAddr), Failure> {
    check_reach(settings, any_shared)?;
    let address = SocketAddr::new(settings.http.host, settings.http.port);
    let listener = bind(address).map_err(|error| {
        Failure::Broken(format!(
            "listen on {address}: {error}\n  choose another port with --port; 0 takes any free one"
        ))
    })?;
    let bound = listener.local_addr().map_err(Failure::broken("look up the port"))?;
    Ok((listener, bound))
}

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A port whose last connections have just ended can be used again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A service without any skill has the demo skills of the program, so that there is something to try.
fn with_demos(registry: Registry, settings: &Settings) -> Registry {
    // Where that cannot be told, there are skills.
    if !registry.is_empty().unwrap_or(false) {
        return registry;
    }
    match builtin::write(&Layout::new(&settings.paths.data_dir).builtin_skills()) {
        Ok(folder) => registry.with_demos(folder),
        Err(error) => {
            warn!(%error, "the demo skills of the program cannot be written");
            registry
        }
    }
}

async fn serve_until_told(settings: Settings) -> Result<(), Failure> {
    // Before anything else, so that a signal during the start is not lost.
    let mut stop = Stop::listen()?;
    let opened = data_folder::open_for_service(&settings)?;
    let (listener, bound) = listen(&settings, opened.any_shared_token_opens().await?).await?;
    let grace = Duration::from_secs(settings.http.drain_grace_seconds);
    let registry = Registry::new(&settings.paths.skills_dir).with_agents(&settings.paths.agents_dir);
    let registry = with_demos(registry, &settings);
    let address = Some(service_address::url(bound));
    let orchestrator = data_folder::take_over_as_one(opened, registry, settings, address).await?;

    let (end, ended) = oneshot::channel();
    let until_ended = async move {
        // A dropped sender means the same.
        let _ = ended.await;
    };
    let mut server = tokio::spawn(http::serve(listener, orchestrator.clone(), until_ended));
    let announcement = service_address::announce(orchestrator.layout(), bound)?;
    let url = service_address::url(bound);
    output::line(&format!("listening on {url}"))?;
    info!(%url, "the service is ready");
    let told = orchestrator.clone();
    // Every skill is read and each CLI is asked for its version, which takes long; nobody waits for that.
    let telling = std::thread::Builder::new().spawn(move || {
        // A service that nobody reads from works all the same.
        let _ = banner::tell(&told);
        give_back_what_the_start_needed();
    });
    if let Err(error) = telling {
        warn!(%error, "what the service found at its start cannot be told");
    }

    let signal_name = tokio::select! {
        name = stop.next() => name,
        broken = &mut server => return Err(server_ended(broken)),
    };
    let in_order = drain(&orchestrator, &mut stop, signal_name, grace).await;
    drop(announcement);
    if !in_order {
        std::process::exit(Exit::Interrupted.status().into());
    }
    let _ = end.send(());
    if tokio::time::timeout(LAST_ANSWERS, server).await.is_err() {
        warn!("some connections did not end in time");
    }
    info!("the service has ended");
    Ok(())
}

async fn work_until_told(settings: Settings) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let opened = data_folder::open_for_service(&settings)?;
    let grace = Duration::from_secs(settings.http.drain_grace_seconds);
    let registry = Registry::new(&settings.paths.skills_dir).with_agents(&settings.paths.agents_dir);
    let orchestrator = data_folder::take_over_as_one(opened, registry, settings, None).await?;
    output::line("working on the runs of the store")?;
    info!("the worker is ready");
    let signal_name = stop.next().await;
    if !drain(&orchestrator, &mut stop, signal_name, grace).await {
        std::process::exit(Exit::Interrupted.status().into());
    }
    info!("the worker has ended");
    Ok(())
}

/// Takes no new work and waits for the engines that run; false after a second signal, which ends the process at once.
async fn drain(orchestrator: &Orchestrator, stop: &mut Stop, signal_name: &str, grace: Duration) -> bool {
    info!(signal = signal_name, "no new work is taken; running engines have {} s to finish", grace.as_secs());
    if let Some(waits) = banner::waits_for(orchestrator, grace.as_secs()).await {
        logging::tell(&waits);
    }
    tokio::select! {
        () = orchestrator.drain(grace) => true,
        name = stop.next() => {
            warn!(signal = name, "ending at once");
            false
        }
    }
}

fn server_ended(how: Result<std::io::Result<()>, tokio::task::JoinError>) -> Failure {
    match how {
        Ok(Ok(())) => Failure::Broken("the HTTP server ended by itself".to_owned()),
        Ok(Err(error)) => Failure::Broken(format!("the HTTP server failed: {error}")),
        Err(error) => Failure::Broken(format!("the HTTP server failed: {error}")),
    }
}

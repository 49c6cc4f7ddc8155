//! `e2e-client`: its flags, and how it listens and ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::cli::connect::client::Client;
use crate::cli::connect::service_address;
use crate::cli::e2e_client::listener::OwnListener;
use crate::cli::e2e_client::routes::routes;
use crate::cli::e2e_client::state::Shared;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::runtime::runtime;
use crate::cli::stop_signals::Stop;
use crate::cli::terminal::output;
use crate::settings::{LogLevel, Settings};
use crate::workspace::new_secret;

/// How long answers may take after the signal; open event streams end with the process.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves the example client: pages that use a running service over HTTP alone
///
/// A person chooses a skill, or drops the package of one, fills in its form, watches the run, answers its questions and
/// reads its result. Each create, upload, reply and reading of a result is recorded as JSON, and can be played back step
/// by step. It listens on 127.0.0.1 alone. The token of the service stays in this process; where one is set, the pages
/// open with the address that is printed, which has a key.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Port to listen on; 0 chooses a free one [default: 8011]
    #[arg(long)]
    port: Option<u16>,
    /// The service to use [default: http://127.0.0.1:8000]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Folder for the recordings [default: replay/recordings]
    #[arg(long, value_name = "DIR")]
    recordings: Option<String>,
}

const AFTER_HELP: &str = "\
The settings e2e_client_port, e2e_client_backend_base_url and e2e_client_recordings_dir have the same meaning, for example
as SKILL_RUNNER_E2E_CLIENT_PORT. A port there that is no port means 8011.

Examples:
  skill-runner e2e-client
  skill-runner e2e-client --port 0 --server http://127.0.0.1:9000 --recordings /tmp/recordings
  SKILL_RUNNER_TOKEN=$TOKEN skill-runner e2e-client";

pub(crate) fn serve(global: &Global, args: Args) -> Result<(), Failure> {
    let settings = global
        .settings(&[("e2e_client_backend_base_url", args.server), ("e2e_client_recordings_dir", args.recordings)])?;
    logging::to_terminal(LogLevel::Warn);
    let runtime = runtime()?;
    let ended = runtime.block_on(serve_until_told(&settings, args.port.unwrap_or(settings.e2e_client.port)));
    // What still waits for the service is not waited for.
    runtime.shutdown_background();
    ended
}

async fn serve_until_told(settings: &Settings, port: u16) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    let token = settings.http.token.as_ref();
    let service = Client::new(&settings.e2e_client.backend_base_url, token)?;
    // Whoever may use this process may do what its token allows, so nobody else on this machine may.
    let key = token.map(|_| new_secret("ec_")).transpose().map_err(Failure::broken("make a key for the pages"))?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Broken(format!(
            "listen on {address}: {error}\n  choose another port with --port; 0 takes any free one"
        ))
    })?;
    let bound = listener.local_addr().map_err(Failure::broken("look up the port"))?;
    let url = service_address::url(bound);
    let opened = key.as_ref().map_or_else(|| url.clone(), |key| format!("{url}/?key={key}"));
    output::line(&format!("listening on {opened}"))?;
    output::line(&format!("the service is {}", service.base()))?;
    let folder = settings.e2e_client.recordings_dir.clone();
    output::line(&format!("recordings are kept in {}", folder.display()))?;

    let has_key = key.is_some();
    let shared = Arc::new(Shared::new(service, token.cloned(), key, folder));
    let (end, ended) = oneshot::channel::<()>();
    let until_ended = async move {
        // A dropped sender means the same.
        let _ = ended.await;
    };
    let serving = axum::serve(OwnListener::new(listener, has_key), routes(shared)).with_graceful_shutdown(until_ended);
    let mut server = tokio::spawn(serving.into_future());
    tokio::select! {
        _ = stop.next() => {}
        broken = &mut server => return Err(Failure::Broken(format!("the HTTP server ended by itself: {broken:?}"))),
    }
    let _ = end.send(());
    let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    Ok(())
}

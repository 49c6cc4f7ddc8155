//! `replay --serve`: a recorded run as a live feed, on the routes of the API and read-only.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::cli::connect::{data_folder, service_address};
use crate::cli::failure::Failure;
use crate::cli::inspect::replay::pace::Pace;
use crate::cli::inspect::replay::player::Player;
use crate::cli::inspect::replay::recording::Recording;
use crate::cli::service::serve::listen;
use crate::cli::stop_signals::Stop;
use crate::cli::terminal::output;
use crate::domain::ids::Seq;
use crate::http;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::store::{EventStore, MemoryStore};

/// Serves the recording until a signal stops it.
pub(crate) async fn serve(
    mut settings: Settings,
    recording: Recording,
    mut pace: Pace,
    until: Seq,
) -> Result<(), Failure> {
    let mut stop = Stop::listen()?;
    // The recording needs files for its log ranges and artifacts; they go with the feed.
    let scratch = tempfile::tempdir().map_err(Failure::broken("make a folder for the recording"))?;
    settings.paths.data_dir = scratch.path().join("data");
    settings.paths.skills_dir = scratch.path().join("skills");
    std::fs::create_dir_all(&settings.paths.data_dir).map_err(Failure::broken("make a folder for the recording"))?;
    let (listener, bound) = listen(&settings, false).await?;

    let store: Arc<dyn EventStore> = Arc::new(MemoryStore::default());
    let registry = Registry::new(&settings.paths.skills_dir);
    let orchestrator = data_folder::take_over(store.clone(), registry, settings).await?;
    let run = recording.contents().run_id;
    let recording = Arc::new(recording);
    let mut player = Player::new(recording.clone(), store, orchestrator.layout().run(run));
    let mut events = recording.events();
    // The first event creates the run, so that it can be found as soon as the address is printed.
    if let Some(first) = events.next() {
        let (envelope, stored) = first?;
        pace.pause_before(envelope.ts);
        player.play(&envelope, stored).await?;
    }
    let (end, ended) = oneshot::channel::<()>();
    let until_ended = async move {
        let _ = ended.await;
    };
    let mut server = tokio::spawn(http::serve_read_only(listener, orchestrator, until_ended));
    output::line(&format!("listening on {}", service_address::url(bound)))?;
    output::line(&format!("the run is {}/v1/jobs/{run}", service_address::url(bound)))?;
    let playing = async {
        for event in events {
            let (envelope, stored) = event?;
            if envelope.seq > until {
                break;
            }
            tokio::time::sleep(pace.pause_before(envelope.ts)).await;
            player.play(&envelope, stored).await?;
        }
        player.show().await?;
        Ok::<(), Failure>(())
    };
    tokio::select! {
        // Once all is played, the feed stays until it is stopped.
        played = async { playing.await?; std::future::pending::<Result<(), Failure>>().await } => played?,
        _ = stop.next() => {}
        broken = &mut server => return Err(Failure::Broken(format!("the HTTP server ended by itself: {broken:?}"))),
    }
    let _ = end.send(());
    let _ = server.await;
    Ok(())
}

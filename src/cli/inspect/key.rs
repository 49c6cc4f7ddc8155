//! `key`: the public key that the runs of a data folder are signed with.

use serde_json::json;

use crate::cli::connect::data_folder::{SharedStore, not_shared};
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::terminal::look::harmless;
use crate::cli::terminal::output;
use crate::orchestrator::{KnownKey, known_keys};
use crate::settings::Settings;
use crate::workspace::{Layout, read_signing_key};

/// Shows the public key that the runs of the data directory are signed with
///
/// The service makes the key when it first starts on a data directory, in the file signing-key, which only its owner can read.
/// Keep the public key where those who change the data directory cannot change it: `audit --key` then tells whether a run
/// or an export is what this service recorded. Where several services share a store, each has a key of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status 4 if the data directory has no key yet.

Example:
  skill-runner key > runner.pub && skill-runner audit run.zip --key runner.pub")]
pub(crate) struct Args {
    /// Show the keys of all services that share or shared the store, one on each line, with the service that it is of
    #[arg(long)]
    all: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn key(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
    if args.all {
        return all(&settings, args.json);
    }
    let layout = Layout::new(&settings.paths.data_dir);
    let signer = read_signing_key(&layout).map_err(Failure::broken("read the signing key"))?;
    let signer = signer.ok_or_else(|| {
        Failure::NotFound(format!(
            "there is no signing key in {}: the service makes it when it first starts\n  choose the data directory with --data-dir",
            settings.paths.data_dir.display()
        ))
    })?;
    if args.json {
        return output::json(&json!({"algorithm": "ed25519", "public_key": signer.public_key()}));
    }
    output::line(&signer.public_key().to_string())
}

fn all(settings: &Settings, json: bool) -> Result<(), Failure> {
    let store = SharedStore::open(settings)?
        .ok_or_else(|| not_shared("blobs", "there is one key where a service has its store alone"))?;
    let keys = store.wait(known_keys(&*store.cluster))?;
    if json {
        let shown = |known: &KnownKey| json!({"algorithm": "ed25519", "public_key": known.key, "node_id": known.node, "name": known.name, "since": known.since});
        return output::json(&json!({"keys": keys.iter().map(shown).collect::<Vec<_>>()}));
    }
    keys.iter().try_for_each(|known| output::line(&format!("{} {} {}", known.key, known.node.0, harmless(&known.name))))
}

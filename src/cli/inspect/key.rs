//! `key`: the public key that the runs of a data folder are signed with.

use serde_json::json;

use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::terminal::output;
use crate::workspace::{Layout, read_signing_key};

/// Shows the public key that the runs of the data directory are signed with
///
/// The service makes the key when it first starts on a data directory, in the file signing-key, which only its owner can read.
/// Keep the public key where those who change the data directory cannot change it: `audit --key` then tells whether a run
/// or an export is what this service recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status 4 if the data directory has no key yet.

Example:
  skill-runner key > runner.pub && skill-runner audit run.zip --key runner.pub")]
pub(crate) struct Args {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn key(global: &Global, args: &Args) -> Result<(), Failure> {
    let settings = global.settings(&[])?;
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

//! `audit`: checks a run and prints the report.

use std::io;
use std::path::Path;

use crate::audit::{self, Report, SignerNode, Trust, Violation};
use crate::cli::connect::data_folder::SharedStore;
use crate::cli::connect::run_id::is_short;
use crate::cli::connect::runs::Runs;
use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::terminal::look::{Ink, Look, harmless, harmless_name};
use crate::cli::terminal::output;
use crate::domain::causes::chain;
use crate::domain::codes::Exit;
use crate::domain::event::Event;
use crate::domain::ids::{RunId, Seq};
use crate::domain::statechart::Status;
use crate::fcmp::{PublicKey, read_envelope};
use crate::files::read_followed;
use crate::orchestrator::{KnownKey, known_keys, make_hit_folder};
use crate::settings::{LogLevel, Settings};
use crate::workspace::{Layout, read_signing_key};

/// Checks a run's log, streams and artifacts, and shows each problem with its place
///
/// Checks the ordering rules OR-01 to OR-07, the schema of every event, the proof (hash chain, raw streams, list of
/// artifacts), the content of every artifact, and that the result matches the log. For a run of the data directory, its
/// row in the store must match its events. For an export, every byte must be unchanged; an export needs neither a
/// service nor a data directory.
///
/// A finished run is signed with the key of its data directory. Without --key the audit says which key signed the run, and
/// that the files agree with each other; whoever can change all of them could have made them so. With --key it is a
/// violation if anything but that key signed the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status 1 if there is a violation; each one names its rule, its file, and the event or the byte.

Examples:
  skill-runner audit last
  skill-runner audit run.zip
  skill-runner audit run.zip --key 3f8a…   (the digits that `skill-runner key` prints)
  skill-runner audit ./data/runs/0192f3c1-8a54-7cc2-b0a1-d2f8a6c1e9b7
  skill-runner audit ./events.jsonl --json")]
pub(crate) struct Args {
    /// Id of a run, its first characters or `last`, an export, a run's folder, or an event log
    target: String,
    /// The public key that must have signed the run: its 64 digits, or a file that holds them
    #[arg(long, value_name = "FILE|HEX")]
    key: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn audit(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    let path = Path::new(&args.target);
    let key = args.key.as_deref().map(public_key).transpose()?;
    let whole = args.target.parse::<RunId>().is_ok();
    let mut report = if whole || (is_short(&args.target) && !path.exists()) {
        stored_run(global, &args.target)?
    } else if path.is_dir() {
        audit::folder(path)?
    } else if path.is_file() {
        audit::file(path)?
    } else {
        let target: String = args.target.chars().take(200).collect();
        return Err(Failure::Usage(format!(
            "{target:?} is neither a run's id nor an existing folder, export or event log"
        )));
    };
    report.judge_signer(key);
    if args.json {
        output::json(&report)?;
    } else {
        output::line(&lines_of(&report, Look::of(&io::stdout())))?;
    }
    if report.ok { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

/// A public key, or the one in a file.
fn public_key(given: &str) -> Result<PublicKey, Failure> {
    let text = match PublicKey::parse(given) {
        Some(key) => return Ok(key),
        None => read_followed(Path::new(given)).unwrap_or_default(),
    };
    PublicKey::parse(String::from_utf8_lossy(&text).trim()).ok_or_else(|| {
        let given: String = given.chars().take(200).collect();
        Failure::Usage(format!(
            "--key {given:?} is neither a public key (64 hexadecimal digits) nor a file that holds one"
        ))
    })
}

/// A run of the data directory: its folder, its events, and its row.
fn stored_run(global: &Global, id: &str) -> Result<Report, Failure> {
    let settings = global.settings(&[])?;
    let runs = Runs::open(&settings, None)?;
    let run = runs.resolve(id)?;
    let mut report = audit_stored(&settings, &runs, run)?;
    if let Some(store) = SharedStore::open(&settings)? {
        for KnownKey { key, node, name, .. } in store.wait(known_keys(&*store.cluster))? {
            report.know_signer_of(key, SignerNode { node_id: node.0.to_string(), name });
        }
    }
    Ok(report)
}

/// The same for a run that is known.
pub(crate) fn audit_stored(settings: &Settings, runs: &Runs, run: RunId) -> Result<Report, Failure> {
    let layout = Layout::new(&settings.paths.data_dir);
    let root = layout.run(run).root;
    if !root.exists() {
        make_folder(runs, &layout, run)?;
    }
    let read_events = |take: &mut dyn FnMut(&[u8])| {
        runs.events(run, Seq(1), None, |event| {
            take(event);
            Ok(())
        })
    };
    let mut report = audit::stored_run(run, root, read_events, || runs.row(run))?;
    let own = read_signing_key(&layout).map_err(Failure::broken("read the signing key"))?;
    report.know_signer(own.map(|own| own.public_key()));
    Ok(report)
}

/// A run that took an equal run's result may have no folder yet.
fn make_folder(runs: &Runs, layout: &Layout, run: RunId) -> Result<(), Failure> {
    let (mut first, mut taken) = (None, None);
    runs.events(run, Seq(1), Some(Seq(2)), |event| {
        match read_envelope(event).ok().and_then(|envelope| envelope.event) {
            Some(Event::Started(started)) => first = Some(started),
            Some(Event::CacheHit(hit)) => taken = Some(hit.source_run_id),
            Some(_) | None => {}
        }
        Ok(())
    })?;
    if let (Some(started), Some(source)) = (first, taken)
        && let Err(error) = make_hit_folder(layout, run, &started, source)
    {
        // The audit then names the files that are missing.
        tracing::warn!(error = %chain(&error), "the folder of the run cannot be made");
    }
    Ok(())
}

fn lines_of(report: &Report, look: Look) -> String {
    let run = report.run_id.map_or_else(|| "unknown run".to_owned(), |run| format!("run {run}"));
    let status = report.status.map_or("unknown status", Status::as_str);
    let mut lines = vec![format!("{run}: {} events, {status}", report.events)];
    lines.push(format!("checked: {}", report.checked.join(", ")));
    lines.extend(report.not_checked.iter().map(|what| format!("not checked: {what}")));
    for Violation { rule, file, seq, byte, message } in &report.violations {
        let event = seq.map_or_else(String::new, |seq| format!(" event {seq}"));
        let byte = byte.map_or_else(String::new, |byte| format!(" byte {byte}"));
        let rule = look.paint(Ink::Bad, rule);
        lines.push(format!("{rule} {}{event}{byte}: {}", harmless_name(file), harmless(message)));
    }
    lines.push(match (report.trust, report.signed_by) {
        (Trust::Trusted, Some(key)) => match &report.signed_on {
            Some(SignerNode { node_id, name }) => {
                format!("signed by {key} of {} ({node_id}), a key of the services on this store", harmless(name))
            }
            None => format!("signed by {key}, the key that is trusted here"),
        },
        (_, Some(key)) => format!("signed by {key}; whose key that is, only --key can tell"),
        (_, None) => {
            "not signed: the files agree with each other, but whoever can change all of them could have made them so"
                .into()
        }
    });
    lines.push(match report.violations.len() {
        0 => look.paint(Ink::Good, "ok"),
        1 => look.paint(Ink::Bad, "1 violation"),
        many => look.paint(Ink::Bad, &format!("{many} violations")),
    });
    lines.join("\n")
}

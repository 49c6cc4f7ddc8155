//! `GET …/files` and `…/file`: the files in a run's folder, and a preview of one of them.

use std::fs::{self, File};
use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use crate::domain::ids::Seq;
use crate::domain::run_file::RunFile;
use crate::domain::state::RunState;
use crate::files::{LookupError, Preview, list_beneath, open_beneath};
use crate::http::answer::problem::Problem;
use crate::http::management::preview::previewed;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::app::App;
use crate::http::state::task::blocking;
use crate::orchestrator::{Error, SharedSkill};
use crate::projection::{check_shown, may_lead_to_shown};

/// Most entries of a tree, and its greatest depth.
const TREE_ENTRIES: usize = 10_000;
const TREE_DEPTH: usize = 32;

#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    path: String,
    /// `file`, `folder`, or `other` for what is neither.
    kind: &'static str,
    size: Option<u64>,
}

pub(crate) async fn all(State(app): State<App>, asked: RunInPath, query: Query) -> Result<Response, Problem> {
    query.finish()?;
    app.room().make(listed(app.clone(), asked)).await
}

async fn listed(app: App, asked: RunInPath) -> Result<Response, Problem> {
    let (request_id, run_id) = (asked.request(), asked.run());
    let root = app.orchestrator().log().folder(run_id).await?.root;
    if asked.state.status().is_final() && root.symlink_metadata().is_err() {
        return Err(app.orchestrator().log().files_gone(run_id).into());
    }
    blocking(move || {
        let mut entries = Vec::new();
        let whole = tree(Listed { root: &root, named: "" }, "", 0, &mut entries);
        if let Some(shared) = app.orchestrator().shared_skill(&asked.state)? {
            add_shared(&shared, &mut entries);
        }
        let told = json!({"request_id": request_id, "run_id": run_id, "files": entries, "truncated": !whole});
        // Written here: it may be long.
        Ok::<_, Problem>(Json(told).into_response())
    })
    .await
}

/// A folder that is listed, and what stands before the paths in it.
#[derive(Clone, Copy)]
struct Listed<'a> {
    root: &'a Path,
    named: &'a str,
}

/// Adds the copy of the skill that the run shares with others, where the run sees it.
fn add_shared(shared: &SharedSkill, entries: &mut Vec<Entry>) {
    for folder in shared.seen_at.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
        let path = folder.to_string_lossy().into_owned();
        if !entries.iter().any(|entry| entry.path == path) {
            entries.push(Entry { path, kind: "folder", size: None });
        }
    }
    let named = format!("{}/", shared.seen_at.display());
    tree(Listed { root: &shared.files, named: &named }, "", 0, entries);
    entries.sort_by(|one, other| one.path.split('/').cmp(other.path.split('/')));
}

/// Lists what may be shown of a folder, each folder before its content; returns whether the list is complete. Links are not
/// followed. A folder that cannot be read counts as empty, because the engine may be deleting it.
fn tree(listed: Listed<'_>, folder: &str, depth: usize, entries: &mut Vec<Entry>) -> bool {
    let Ok(found) = list_beneath(listed.root, Path::new(folder)) else { return true };
    // An engine may have made more than there is memory for.
    let mut found: Vec<fs::DirEntry> = found.flatten().take(TREE_ENTRIES + 1).collect();
    let mut whole = found.len() <= TREE_ENTRIES;
    found.sort_by_key(fs::DirEntry::file_name);
    for entry in found {
        if entries.len() == TREE_ENTRIES {
            return false;
        }
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        let below = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let path = format!("{}{below}", listed.named);
        let shown = if kind.is_dir() { may_lead_to_shown(&path) } else { check_shown(&path).is_ok() };
        if !shown {
            continue;
        }
        let size = entry.metadata().ok().filter(|_| kind.is_file()).map(|found| found.len());
        let named = if kind.is_file() {
            "file"
        } else if kind.is_dir() {
            "folder"
        } else {
            "other"
        };
        entries.push(Entry { path, kind: named, size });
        if kind.is_dir() {
            whole &= depth < TREE_DEPTH && tree(listed, &below, depth + 1, entries);
        }
    }
    whole
}

/// A file of the copy of the skill that the run shares with others.
fn open_shared(app: &App, state: &RunState, path: &Path) -> Result<Result<File, LookupError>, Problem> {
    let shared = app.orchestrator().shared_skill(state)?;
    let below = shared.and_then(|shared| Some((path.strip_prefix(&shared.seen_at).ok()?.to_owned(), shared.files)));
    Ok(below.map_or(Err(LookupError::NotFound), |(below, files)| open_beneath(&files, &below)))
}

pub(crate) async fn one(State(app): State<App>, asked: RunInPath, mut query: Query) -> Result<Json<Value>, Problem> {
    let path = query.text("path").ok_or_else(|| Problem::invalid("path", "is required"))?;
    query.finish()?;
    let request_id = asked.request();
    let log = app.orchestrator().log();
    let root = log.folder(asked.run()).await?.root;
    let proven = log.proven(asked.run()).await?;
    if proven.is_some() && path == RunFile::Events.name() {
        // A log that is not what was logged is refused.
        log.read(asked.run(), Seq::START, 1).await?;
    }
    blocking(move || {
        let opened = match open_beneath(&root, Path::new(&path)) {
            Err(LookupError::NotFound) => open_shared(&app, &asked.state, Path::new(&path))?,
            opened => opened,
        };
        let refused_anyway = match &opened {
            Err(LookupError::Unsafe { .. }) => true,
            Err(LookupError::NotAFile) => may_lead_to_shown(&path),
            Ok(_) | Err(LookupError::NotFound | LookupError::Io { .. }) => false,
        };
        // Of a hidden file not even its existence is told.
        if !refused_anyway {
            check_shown(&path).map_err(|reason| Problem::RunFileHidden { path: path.clone(), reason })?;
        }
        if let Some(proven) = proven.filter(|_| !refused_anyway) {
            // What the run had when it ended must be there and be the same.
            proven.open_optional(&path)?;
        }
        let mut file = opened.map_err(|source| Problem::RunFile { path: path.clone(), source })?;
        let (size, preview) = Preview::of(&mut file).map_err(Error::io(format!("read {path}")))?;
        let mut shown = previewed(size, &preview);
        shown["request_id"] = json!(request_id);
        shown["path"] = json!(path);
        Ok::<_, Problem>(Json(shown))
    })
    .await
}

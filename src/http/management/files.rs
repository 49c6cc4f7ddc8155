//! `GET …/files` and `…/file`: the files in a run's folder, and a preview of one of them.

use std::fs;
use std::io::Read;
use std::path::Path;

use axum::Json;
use serde::Serialize;
use serde_json::{Value, json};

use crate::files::{LookupError, open_beneath};
use crate::http::answer::problem::Problem;
use crate::http::request::query::Query;
use crate::http::request::run_in_path::RunInPath;
use crate::http::state::task::blocking;
use crate::orchestrator::Error;
use crate::projection::{check_shown, may_lead_to_shown};

/// Largest text that is shown.
const PREVIEW_BYTES: u64 = 256 * 1024;
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

pub(crate) async fn all(asked: RunInPath, query: Query) -> Result<Json<Value>, Problem> {
    query.finish()?;
    let (request_id, run_id) = (asked.request(), asked.run());
    let (entries, truncated) = blocking(move || {
        let mut entries = Vec::new();
        let whole = tree(&asked.paths.root, "", 0, &mut entries);
        Ok::<_, Problem>((entries, !whole))
    })
    .await?;
    Ok(Json(json!({"request_id": request_id, "run_id": run_id, "files": entries, "truncated": truncated})))
}

/// Lists what may be shown of a folder, each folder before its content; returns whether the list is complete. Links are not
/// followed. A folder that cannot be read counts as empty, because the engine may be deleting it.
fn tree(root: &Path, folder: &str, depth: usize, entries: &mut Vec<Entry>) -> bool {
    let Ok(found) = fs::read_dir(root.join(folder)) else { return true };
    let mut found: Vec<fs::DirEntry> = found.flatten().collect();
    found.sort_by_key(fs::DirEntry::file_name);
    let mut whole = true;
    for entry in found {
        if entries.len() == TREE_ENTRIES {
            return false;
        }
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
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
        entries.push(Entry { path: path.clone(), kind: named, size });
        if kind.is_dir() {
            whole &= depth < TREE_DEPTH && tree(root, &path, depth + 1, entries);
        }
    }
    whole
}

pub(crate) async fn one(asked: RunInPath, mut query: Query) -> Result<Json<Value>, Problem> {
    let path = query.text("path").ok_or_else(|| Problem::invalid("path", "is required"))?;
    query.finish()?;
    let request_id = asked.request();
    blocking(move || {
        let opened = open_beneath(&asked.paths.root, Path::new(&path));
        let refused_anyway = match &opened {
            Err(LookupError::Unsafe { .. }) => true,
            Err(LookupError::NotAFile) => may_lead_to_shown(&path),
            Ok(_) | Err(LookupError::NotFound | LookupError::Io { .. }) => false,
        };
        // Of a hidden file not even its existence is told.
        if !refused_anyway {
            check_shown(&path).map_err(|reason| Problem::RunFileHidden { path: path.clone(), reason })?;
        }
        let file = opened.map_err(|source| Problem::RunFile { path: path.clone(), source })?;
        let doing = || format!("read {path}");
        let size = file.metadata().map_err(Error::io(doing()))?.len();
        let (preview, content) = if size > PREVIEW_BYTES {
            ("too_large", None)
        } else {
            let mut bytes = Vec::new();
            file.take(PREVIEW_BYTES).read_to_end(&mut bytes).map_err(Error::io(doing()))?;
            // A NUL is valid UTF-8, but means that the file is not text.
            match String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')) {
                Some(text) => ("text", Some(text)),
                None => ("binary", None),
            }
        };
        Ok::<_, Problem>(Json(json!({
            "request_id": request_id, "path": path, "size": size, "preview": preview, "content": content,
        })))
    })
    .await
}

//! Finds the databases of a store folder, or makes the first ones.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::damage::engine_failed;
use super::generation::Generation;
use super::index::Index;
use super::keys;
use super::levels::{Closed, Levels};
use super::read::Stored;
use crate::domain::ids::RunId;
use crate::store::Error;

/// Opens everything in a claimed directory.
pub(super) fn open(store_dir: &Path) -> Result<Stored, Error> {
    let (mut generations, mut indexes) = (numbers(store_dir, "generation-")?, numbers(store_dir, "index-")?);
    let damaged = |reason: String| Error::CorruptFile { path: store_dir.to_path_buf(), reason };
    generations.sort_unstable();
    indexes.sort_unstable();
    // The index is made before the first generation that may need it.
    let index = match (indexes.pop(), generations.last()) {
        (Some(number), _) => Index::open(store_dir, number)?,
        (None, None | Some(0)) => Index::create(store_dir, 1)?,
        (None, Some(_)) => return Err(damaged("the folder index-… is missing".to_owned())),
    };
    // A fresh index takes the place of the one before it.
    for number in indexes {
        Index::open(store_dir, number)?.database.set_aside()?;
    }
    if let Some(gap) = generations.windows(2).find(|two| two[0] + 1 != two[1]) {
        return Err(damaged(format!("the folder generation-{} is missing", gap[0] + 1)));
    }
    if generations.is_empty() && !index.is_empty()? {
        return Err(damaged("the folder generation-… is missing".to_owned()));
    }
    // Generation 0 is a store of the first format, which is emptied and takes nothing new.
    let current = match generations.pop_if(|last| *last > 0) {
        Some(number) => Generation::open(store_dir, number)?,
        None => Generation::create(store_dir, 1)?,
    };
    // None is settled before the compactor has looked at it.
    let closed = |number| Ok(Closed { generation: Arc::new(Generation::open(store_dir, number)?), settled: false });
    let closed = generations.into_iter().rev().map(closed);
    let closed = closed.collect::<Result<_, Error>>()?;
    let levels = Levels { current: Arc::new(current), closed, index: Arc::new(index) };
    let deleted = deleted(&levels)?;
    Ok(Stored { levels: Arc::new(levels), deleted })
}

/// Runs whose events are deleted, and the generation that says so.
fn deleted(levels: &Levels) -> Result<HashMap<RunId, u64>, Error> {
    let mut deleted = HashMap::new();
    let (first, end) = keys::deleted_keys();
    for generation in levels.generations() {
        for key in generation.database.db()?.range(first.as_slice()..end.as_slice()).keys() {
            if let Some(run) = keys::run_of_row(&key.map_err(engine_failed)?) {
                // The newest comes first.
                deleted.entry(run).or_insert(generation.number);
            }
        }
    }
    Ok(deleted)
}

/// The numbers of the folders with names that begin so.
fn numbers(store_dir: &Path, prefix: &str) -> Result<Vec<u64>, Error> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(store_dir).map_err(Error::io("list", store_dir))? {
        let name = entry.map_err(Error::io("list", store_dir))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok()));
    }
    Ok(numbers)
}

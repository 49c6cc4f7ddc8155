//! The tables of docs/reliability.md: what came of each failed call, one row for each folder and end.

use std::collections::{BTreeMap, BTreeSet};

use super::End;
use crate::support::file_calls::{Deed, FileCall};

fn word(deed: Deed) -> &'static str {
    match deed {
        Deed::Create => "create",
        Deed::Write => "write",
        Deed::Share => "share the blocks for",
        Deed::Cut => "cut",
        Deed::Sync => "sync",
        Deed::SyncFileSystem => "sync the file system of",
        Deed::Rename => "rename",
        Deed::Exchange => "exchange",
        Deed::Link => "link",
        Deed::Folder => "create the folder",
        Deed::Remove => "remove",
    }
}

/// The folder of a call, and its name in there.
fn split(call: &FileCall) -> (&str, String) {
    let (folder, name) = call.path.rsplit_once('/').unwrap_or(("", &call.path));
    let to = |to: &str| format!(" → {}", to.strip_prefix(&format!("{folder}/")).unwrap_or(to));
    (folder, format!("`{name}{}`", call.to.as_deref().map(to).unwrap_or_default()))
}

/// The names in a folder, by what is done to them.
type Names = BTreeMap<Deed, Vec<String>>;

pub(super) fn printed(ends: &BTreeMap<(FileCall, &str), End>) -> String {
    let mut rows: BTreeMap<(&str, [&str; 3]), Names> = BTreeMap::new();
    for call in ends.keys().map(|(call, _)| call).collect::<BTreeSet<_>>() {
        let [eio, enospc] = ["EIO", "ENOSPC"].map(|error| ends.get(&(call.clone(), error)));
        let [first, second] = [eio, enospc].map(|end| end.map_or("not met", |end| end.run.as_str()));
        let ended = [eio, enospc].into_iter().flatten().any(|end| end.service_ended);
        let (folder, name) = split(call);
        let row = rows.entry((folder, [first, second, if ended { "ends" } else { "goes on" }])).or_default();
        row.entry(call.deed).or_default().push(name);
    }
    let mut told = "| in | calls | EIO | ENOSPC | service |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for ((folder, ends), deeds) in rows {
        let calls: Vec<String> =
            deeds.iter().map(|(deed, names)| format!("{} {}", word(*deed), names.join(", "))).collect();
        told += &format!("| `{folder}` | {} | {} |\n", calls.join("; "), ends.join(" | "));
    }
    told
}

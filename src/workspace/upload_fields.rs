//! Which of the files that a client sends are for which input of the skill.

use std::collections::BTreeMap;

use super::upload_error::UploadError;

/// What systems and their tools put into zips by themselves.
const PASSED_OVER: [&str; 3] = ["__MACOSX", ".DS_Store", "Thumbs.db"];

/// The inputs of a skill that are files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadFields {
    /// Those that take one file each.
    pub named: Vec<String>,
    /// The one that takes every other file, if there is one.
    pub rest: Option<String>,
}

/// The entries of a zip, told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// For each entry that is taken, the name it gets in `uploads/`.
    pub(crate) taken: BTreeMap<String, String>,
    /// Entries that are for no input.
    pub(crate) ignored: Vec<String>,
}

/// Tells the entries of a zip apart by their names. An entry `field` or `field.<ext>`, at the top or below the only folder
/// at the top, is the field's file.
pub(crate) fn assign<'a>(names: impl Iterator<Item = &'a str>, fields: &UploadFields) -> Result<Assigned, UploadError> {
    let passed_over = |name: &str| name.split('/').any(|part| PASSED_OVER.contains(&part));
    let files: Vec<&str> = names.filter(|name| !name.ends_with('/') && !passed_over(name)).collect();
    let top = only_top_folder(&files);
    let mut assigned = Assigned::default();
    let mut entry_of: BTreeMap<String, &str> = BTreeMap::new();
    for name in files {
        let inner = match (name.split_once('/'), top) {
            (Some((folder, inner)), Some(top)) if folder == top => inner,
            _ => name,
        };
        let place = match (field_of(inner, &fields.named), &fields.rest) {
            (Some(field), _) => field.to_owned(),
            (None, Some(_)) => name.to_owned(),
            (None, None) => {
                assigned.ignored.push(name.to_owned());
                continue;
            }
        };
        if let Some(other) = entry_of.insert(place.clone(), name) {
            return Err(UploadError::TwoForOne { field: place, names: [other.to_owned(), name.to_owned()] });
        }
        assigned.taken.insert(name.to_owned(), place);
    }
    Ok(assigned)
}

/// The field whose file has this name: the name itself, or the longest one that is followed by an extension.
pub(crate) fn field_of<'a>(name: &str, fields: &'a [String]) -> Option<&'a str> {
    if let Some(field) = fields.iter().find(|field| *field == name) {
        return Some(field);
    }
    let has_extension = |rest: &str| rest.strip_prefix('.').is_some_and(|ext| !ext.is_empty() && !ext.contains('/'));
    let fits = fields.iter().filter(|field| name.strip_prefix(field.as_str()).is_some_and(has_extension));
    fits.max_by_key(|field| field.len()).map(String::as_str)
}

/// The folder at the top, if there is only one. Files may stand beside it.
fn only_top_folder<'a>(files: &[&'a str]) -> Option<&'a str> {
    let mut folders = files.iter().filter_map(|name| name.split_once('/')).map(|(folder, _)| folder);
    let first = folders.next()?;
    folders.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(named: &[&str], rest: bool) -> UploadFields {
        let named = named.iter().map(|field| (*field).to_owned()).collect();
        UploadFields { named, rest: rest.then(|| "files".to_owned()) }
    }

    fn told(names: &[&str], fields: &UploadFields) -> (Vec<String>, Vec<String>) {
        let assigned = assign(names.iter().copied(), fields).unwrap();
        (assigned.taken.iter().map(|(entry, field)| format!("{entry} → {field}")).collect(), assigned.ignored)
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn an_entry_is_a_fields_file_by_its_name_with_or_without_an_extension_and_below_one_folder() {
        let two = fields(&["data", "data.old"], false);
        assert_eq!(told(&["data.csv", "data.old"], &two), (texts(&["data.csv → data", "data.old → data.old"]), vec![]));
        assert_eq!(told(&["data.old.csv"], &two), (texts(&["data.old.csv → data.old"]), vec![]));
        assert_eq!(
            told(&["top/", "top/data.tar.gz", "top/deeper/data"], &two),
            (texts(&["top/data.tar.gz → data"]), texts(&["top/deeper/data"]))
        );
        assert_eq!(told(&["a/data", "b/x"], &two), (vec![], texts(&["a/data", "b/x"])));
        assert_eq!(told(&["data.", "database", "Data"], &two), (vec![], texts(&["data.", "database", "Data"])));
    }

    #[test]
    fn what_systems_add_is_passed_over_and_what_is_for_no_field_is_named() {
        let names = ["pack/data", "__MACOSX/pack/._data", "pack/.DS_Store", "Thumbs.db", "README.md"];
        assert_eq!(told(&names, &fields(&["data"], false)), (texts(&["pack/data → data"]), texts(&["README.md"])));
    }

    #[test]
    fn a_field_for_the_rest_takes_every_other_file_under_its_own_name() {
        let names = ["pack/data.csv", "pack/notes/a.md", "pack/.DS_Store"];
        assert_eq!(
            told(&names, &fields(&["data"], true)),
            (texts(&["pack/data.csv → data", "pack/notes/a.md → pack/notes/a.md"]), vec![])
        );
    }

    #[test]
    fn two_entries_for_one_field_are_refused() {
        let error = assign(["data", "data.csv"].into_iter(), &fields(&["data"], false)).unwrap_err();
        assert_eq!(error.to_string(), r#"both "data" and "data.csv" are the file of "data"; send one of them"#);
        assert_eq!(error.code(), "INVALID_REQUEST");
    }
}

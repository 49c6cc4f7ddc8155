//! What is to be told about uploaded files, although the run goes on with them.

use crate::domain::codes::WarningCode;
use crate::domain::outcome::Warning;
use crate::skill::input_schema::FileField;
use crate::workspace::Manifest;

/// Most entries that are named, each by a warning of its own.
const NAMED_MAX: usize = 16;

/// A warning for each entry of a zip that is for no input, and one for those beyond the first few.
pub(crate) fn ignored_entries(entries: &[String]) -> impl Iterator<Item = Warning> {
    let (named, more) = entries.split_at(entries.len().min(NAMED_MAX));
    let more = (!more.is_empty()).then(|| {
        let message = format!("{} more entries of the uploaded zip are for no input of the skill", more.len());
        let mut warning = Warning::new(WarningCode::UploadEntryIgnored, message);
        warning.details.insert("count".to_owned(), more.len().into());
        warning
    });
    named.iter().map(|entry| ignored(entry)).chain(more)
}

fn ignored(entry: &str) -> Warning {
    let message = format!("{entry:?} in the uploaded zip is for no input of the skill and was left out");
    let mut warning = Warning::new(WarningCode::UploadEntryIgnored, message);
    warning.details.insert("entry".to_owned(), entry.into());
    warning
}

/// A warning for each file whose name does not end as its input expects. `rest` is the input of all files that are for no other.
pub(crate) fn unexpected_endings(
    fields: &[FileField],
    rest: Option<&FileField>,
    manifest: &Manifest,
) -> impl Iterator<Item = Warning> {
    manifest.files.iter().filter_map(move |file| {
        let named = fields.iter().find(|field| field.name == file.name);
        let (field, file_name) = match named {
            // Without a name of its own nothing is known of its ending.
            Some(field) => (field, file.file_name.as_deref()?),
            None => (rest?, file.file_name.as_deref().unwrap_or(&file.name)),
        };
        let lower = file_name.to_ascii_lowercase();
        let fits = |ending: &String| lower.ends_with(&format!(".{ending}"));
        if field.extensions.is_empty() || field.extensions.iter().any(fits) {
            return None;
        }
        let expected: Vec<String> = field.extensions.iter().map(|ending| format!(".{ending}")).collect();
        let message = format!("the file of {:?} is {file_name:?}; expected was {}", field.name, expected.join(" or "));
        let mut warning = Warning::new(WarningCode::InputExtensionUnexpected, message);
        warning.details.insert("field".to_owned(), field.name.clone().into());
        warning.details.insert("file".to_owned(), file_name.into());
        warning.details.insert("expected".to_owned(), expected.into());
        Some(warning)
    })
}

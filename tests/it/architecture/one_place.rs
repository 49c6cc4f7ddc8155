//! The second back ends of the store and of shared files are known in their folders, where they are chosen, and in the settings, and
//! nowhere else.

use super::{Source, sources};

/// A word, and where it may stand.
type Place = (&'static str, &'static [&'static str]);

const POSTGRES: Place =
    ("postgres", &["store/postgres/", "store/mod.rs", "settings/", "cli/connect/data_folder.rs", "cli/global.rs"]);
const S3: Place = ("s3", &["blobs/s3/", "blobs/mod.rs", "settings/"]);

fn elsewhere(sources: &[Source], (word, places): Place) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    let stands_alone = |text: &str| {
        text.match_indices(word).any(|(at, _)| {
            // The name of a database is part of other words; the short one is not.
            word.len() > 2 || !(text[..at].ends_with(is_part) || text[at + word.len()..].starts_with(is_part))
        })
    };
    let named = sources.iter().filter(|source| stands_alone(&source.text.to_lowercase()));
    let paths = named.map(|source| source.path.to_str().unwrap().to_owned());
    paths.filter(|path| !places.iter().any(|place| path.starts_with(place))).collect()
}

#[test]
fn postgres_is_named_in_its_folder_and_where_the_store_is_chosen_alone() {
    assert_eq!(elsewhere(&sources(), POSTGRES), Vec::<String>::new());
    let planted = Source { path: "http/x.rs".into(), module: "http".into(), text: "// PostgreSQL".into() };
    assert_eq!(elsewhere(&[planted], POSTGRES), ["http/x.rs"]);
}

#[test]
fn the_protocol_of_object_stores_is_named_in_its_folder_and_where_the_place_is_chosen_alone() {
    assert_eq!(elsewhere(&sources(), S3), Vec::<String>::new());
    for (text, found) in [("// in S3", 1), ("let s3_region = 1;", 1), ("\"8f4s3c\"", 0), ("classes3", 0)] {
        let planted = Source { path: "http/x.rs".into(), module: "http".into(), text: text.into() };
        assert_eq!(elsewhere(&[planted], S3).len(), found, "{text}");
    }
}

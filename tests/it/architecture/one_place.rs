//! The second back end of the store is known in its folder, where the store is chosen, and in the settings, and nowhere else.

use super::{Source, sources};

/// Where its name may stand.
const PLACES: &[&str] =
    &["store/postgres/", "store/mod.rs", "settings/", "cli/connect/data_folder.rs", "cli/global.rs"];

fn elsewhere(sources: &[Source]) -> Vec<String> {
    let named = sources.iter().filter(|source| source.text.to_lowercase().contains("postgres"));
    let paths = named.map(|source| source.path.to_str().unwrap().to_owned());
    paths.filter(|path| !PLACES.iter().any(|place| path.starts_with(place))).collect()
}

#[test]
fn postgres_is_named_in_its_folder_and_where_the_store_is_chosen_alone() {
    assert_eq!(elsewhere(&sources()), Vec::<String>::new());
    let planted = Source { path: "http/x.rs".into(), module: "http".into(), text: "// PostgreSQL".into() };
    assert_eq!(elsewhere(&[planted]), ["http/x.rs"]);
}

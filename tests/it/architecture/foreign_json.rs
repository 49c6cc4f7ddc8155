//! JSON of others is read by `bounded::json`, which refuses what serde_json takes for its own.

use super::{names, sources, test_files};

/// Who reads what this program wrote itself, from its own store and its own pipes, or carries inside.
const OWN: [&str; 6] =
    ["domain/event.rs", "fcmp/head.rs", "store/", "renderer/", "bounded/json.rs", "http/openapi/components.rs"];

/// Who looks at the names first, or reads no values.
const CHECKED: [&str; 2] = ["http/request/json_body.rs", "fuzz/"];

#[test]
fn only_the_bounded_reader_and_readers_of_our_own_data_call_the_library_for_json() {
    let sources = sources();
    let tests = test_files(&sources);
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !tests.contains(&source.path)) {
        let path = source.path.display().to_string();
        if OWN.iter().chain(&CHECKED).any(|allowed| path.starts_with(allowed)) {
            continue;
        }
        let reads =
            |name: &String| name.starts_with("serde_json::from_s") || name.starts_with("serde_json::from_reader");
        broken.extend(names(source).into_iter().filter(reads).map(|name| format!("{path} names {name}")));
    }
    assert!(broken.is_empty(), "read JSON of others with bounded::json:\n{}", broken.join("\n"));
}

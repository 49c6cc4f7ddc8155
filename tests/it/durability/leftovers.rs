//! What a service left in the folder of a run that it had not logged yet: the run that begins again has none of it.

use std::fs;

use serde_json::json;

use crate::support::skill::GATED;
use crate::support::{Server, of_type};

/// A run that takes the result of an equal one has links to its files. If the power fails before that is logged, the run is queued
/// again; if the equal one has been deleted since then, its engine starts, and must not write through the links.
#[test]
fn an_engine_does_not_write_through_links_to_another_runs_files_nor_finds_what_was_left_of_an_unlogged_start() {
    let server = Server::with(&[("max_running_jobs", "1")]);
    server.skill("gated", GATED, json!({}));
    let writes = "cat >/dev/null\nls artifacts > listed\necho own > artifacts/lines.txt\necho '{\"success\":true,\"data\":{}}'\n";
    server.skill("writes", writes, json!({}));
    let (_, first) = server.create("gated");
    server.wait_for(&first, "raw.stderr", "ready");
    let (_, run) = server.create("writes");
    // As the take of a cached result leaves it.
    let artifacts = server.run_dir(&run).join("artifacts");
    fs::create_dir_all(&artifacts).unwrap();
    let of_others = server.data().join("lines.txt");
    fs::write(&of_others, "theirs\n").unwrap();
    fs::hard_link(&of_others, artifacts.join("lines.txt")).unwrap();
    fs::write(artifacts.join("left.txt"), "left\n").unwrap();
    server.open_gate(&first, "on");
    server.finish(&first);
    let events = server.finish(&run);
    assert_eq!(fs::read_to_string(&of_others).unwrap(), "theirs\n");
    assert_eq!(fs::read_to_string(artifacts.join("lines.txt")).unwrap(), "own\n");
    assert_eq!(fs::read_to_string(server.run_dir(&run).join("listed")).unwrap(), "", "it began with nothing");
    let indexed: Vec<_> =
        of_type(&events, "artifact.indexed").into_iter().map(|indexed| indexed["path_rel"].clone()).collect();
    assert_eq!(indexed, [json!("artifacts/lines.txt")], "{events:#?}");
}

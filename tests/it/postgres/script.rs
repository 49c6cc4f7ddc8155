//! `scripts/postgres` as a person uses it.

use std::process::Command;

use skill_runner::store::{Postgres, PostgresStore};

use crate::support::postgres;

fn script(args: &[&str]) -> (bool, String) {
    let done = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/postgres")).args(args).output().unwrap();
    let said = [&done.stdout[..], &done.stderr[..]].map(String::from_utf8_lossy).join("");
    (done.status.success(), said.trim().to_owned())
}

#[test]
fn the_script_starts_a_server_on_a_free_port_and_leaves_nothing_behind() {
    if !postgres::installed("the script starts a server") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // The server's user must get there.
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let folder = place.path().join("server");
    let folder = folder.to_str().unwrap();
    let (started, url) = script(&["start", folder]);
    assert!(started && url.starts_with("postgres://runner:"), "{url}");
    let found = PostgresStore::look(&Postgres::new(url.clone())).unwrap();
    let (told, same) = script(&["url", folder]);
    let (again, refusal) = script(&["start", folder]);
    let (stopped, said) = script(&["stop", folder]);
    assert!(found.contains("PostgreSQL"), "{found}");
    assert_eq!((told, same), (true, url));
    assert_eq!((again, refusal), (false, format!("{folder} is not empty")));
    assert!(stopped && !std::path::Path::new(folder).exists(), "{said}");
}

//! npm and a registry that it cannot trust.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Machine, ended, engine};
use crate::support::clis;
use skill_runner::installed_engines::UpgradeStatus;

/// A server whose certificate nobody signed; its key opens nothing else.
const REGISTRY: &str = r#"
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgiHOB/sm+tg7c+ql9
fTEMZLXUlozZn7L7hKE4pRoeKfOhRANCAAQr6o6X2X4k5p5OwAW77GaMvn70DrOw
294tTLDmb6GLPQ+S2SYv+rM2WJdHyYY0LffbXfK2YTw2LT090uNyMW3Z
-----END PRIVATE KEY-----`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBfjCCASWgAwIBAgIUY4z2LVc1k7Oao3SVA+6tnw0QWaYwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTExNzA2MTQxN1oYDzIxMjYxMDI0
MDYxNDE3WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQr6o6X2X4k5p5OwAW77GaMvn70DrOw294tTLDmb6GLPQ+S2SYv+rM2
WJdHyYY0LffbXfK2YTw2LT090uNyMW3Zo1MwUTAdBgNVHQ4EFgQUVDgT2IRbkVWD
WFXqs8wGU03k7dkwHwYDVR0jBBgwFoAUVDgT2IRbkVWDWFXqs8wGU03k7dkwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNHADBEAiBvtRV5OhMP96dF9C/04ifi
ezshBDfnOT5lYR2aigDnbQIgCM7wDbcEn2m28vNakv4e/IZP7XDlv9IwiB/JLn2P
h0Y=
-----END CERTIFICATE-----`;
const server = require("https").createServer({ key, cert }, (_, answer) => answer.end());
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
"#;

#[test]
fn npm_that_cannot_trust_its_registry_fails_within_a_minute_in_its_own_words_and_its_log_shows_the_way() {
    const NAME: &str = "engines::registry::npm_that_cannot_trust_its_registry_fails_within_a_minute_in_its_own_words_and_its_log_shows_the_way";
    if clis::left_out(NAME) {
        return;
    }
    let path = std::env::var("PATH").unwrap();
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("registry.js");
    fs::write(&script, REGISTRY).unwrap();
    let mut registry = Command::new("node").arg(&script).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(registry.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let machine = Machine::new()
        .variable("PATH", &path)
        .variable("HOME", place.path().to_str().unwrap())
        .variable("npm_config_registry", &format!("https://127.0.0.1:{}/", port.trim()));
    let installed = machine.installed();
    let begun = Instant::now();
    let upgrade = ended(&installed, &installed.upgrade(&[engine("gemini")]).unwrap());
    let took = begun.elapsed();
    registry.kill().unwrap();
    registry.wait().unwrap();
    assert_eq!(upgrade.status, UpgradeStatus::Failed, "{upgrade:?}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    let message = upgrade.results["gemini"].message.clone().unwrap();
    assert!(message.starts_with("npm failed (") && message.contains("self-signed certificate"), "{message}");
    // Each request that npm makes is told while it is under way.
    let log = installed.upgrade_log_tail(upgrade.upgrade_id).unwrap();
    assert!(log.contains("npm http ") && log.contains("DEPTH_ZERO_SELF_SIGNED_CERT"), "{log}");
}

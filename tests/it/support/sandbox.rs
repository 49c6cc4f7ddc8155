//! Whether this machine gives a sandbox, for tests that need one.

use skill_runner::supervisor::{Confinement, probe};

use super::left_out;

/// Whether runs are confined here.
pub fn works() -> bool {
    matches!(probe(tempfile::tempdir().unwrap().path()), Confinement::Works { .. })
}

/// Whether a test is left out because this machine gives no sandbox, and says so where the output of a passed test is seen, too. Where
/// `SANDBOX_TEST_REQUIRED` is set, nothing is left out.
pub fn left_out(test: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let reason = match probe(folder.path()) {
        Confinement::Works { .. } => return false,
        Confinement::Missing { reason } => reason,
        Confinement::Off => "it is off".to_owned(),
    };
    let required = std::env::var_os("SANDBOX_TEST_REQUIRED").is_some();
    assert!(!required, "{test} needs a sandbox: {reason}");
    left_out::tell(&format!("no sandbox here: {reason}"), test);
    true
}

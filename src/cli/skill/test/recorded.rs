//! An engine in a test of a package: a small program that plays recorded output, turn by turn.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cli::failure::Failure;

/// The files of a recording that is a folder; the first must be there.
const PARTS: [(&str, &str); 3] = [("stdout.raw", ""), ("stderr.raw", ""), ("exit.json", "{\"exit\": {\"code\": 0}}")];

/// Each turn takes the next recording; the count is kept in the run's folder, because an engine's home keeps sessions alone.
const PROGRAM: &str = r#"#!/bin/sh
[ "$1" = --version ] && exec RUNNER replay --as-engine HERE --version
turn=1
while ! mkdir ".recorded-turn-$turn" 2>/dev/null; do
  turn=$((turn + 1))
  [ "$turn" -le 1000 ] || exit 1
done
if [ ! -d HERE/"$turn" ]; then
  echo "the test has no recording of turn $turn" >&2
  exit 1
fi
exec RUNNER replay --as-engine HERE/"$turn" "$@"
"#;

/// Writes the program that plays these recordings, files or folders, into a folder; its path.
pub(super) fn engine(recordings: &[PathBuf], folder: &Path) -> Result<PathBuf, Failure> {
    for (at, recording) in recordings.iter().enumerate() {
        let turn = folder.join((at + 1).to_string());
        turn_of(recording, &turn).map_err(|error| Failure::Usage(format!("{}: {error}", recording.display())))?;
    }
    let runner = std::env::current_exe().map_err(Failure::broken("find this program"))?;
    let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
    let text = PROGRAM.replace("RUNNER", &quoted(&runner)).replace("HERE", &quoted(folder));
    let program = folder.join("engine");
    let written =
        fs::write(&program, text).and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o755)));
    written.map_err(Failure::broken(format!("write {}", program.display())))?;
    Ok(program)
}

/// A file is what the engine wrote to standard output before it ended well; a folder says more.
fn turn_of(recording: &Path, turn: &Path) -> std::io::Result<()> {
    fs::create_dir_all(turn)?;
    for (name, usual) in PARTS {
        let part = recording.join(name);
        match (name, recording.is_dir()) {
            ("stdout.raw", true) => fs::copy(part, turn.join(name)).map(drop)?,
            ("stdout.raw", false) => fs::copy(recording, turn.join(name)).map(drop)?,
            (_, true) if part.is_file() => fs::copy(part, turn.join(name)).map(drop)?,
            _ => fs::write(turn.join(name), usual)?,
        }
    }
    Ok(())
}

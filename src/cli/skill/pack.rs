//! `skill pack`: the zip of a package, which installs anywhere and has the same bytes every time.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::cli::failure::Failure;
use crate::cli::skill::{findings, install};
use crate::cli::terminal::look::{Ink, Look};
use crate::cli::terminal::output;
use crate::domain::causes::chain;
use crate::domain::codes::{ErrorCode, Exit};
use crate::files::for_each_chunk;
use crate::registry::{self, NotUsable};
use crate::settings::Settings;
use crate::skill::Intake;
use crate::workspace::Archive;

/// Checks a package and writes its zip, by default `<id>-<version>.zip` in the working directory.
pub(crate) fn pack(settings: &Settings, dir: &Path, to: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    if !dir.is_dir() {
        return Err(Failure::Usage(format!("{} is not a folder; name the folder of a skill", dir.display())));
    }
    let package = match registry::load_dir(dir, Intake::New).map_err(NotUsable::findings) {
        Ok(package) => package,
        Err(found) if as_json => {
            output::json(&json!({"ok": false, "error": {"code": ErrorCode::SkillPackageInvalid}, "findings": found}))?;
            return Err(Failure::Reported(Exit::Refused));
        }
        Err(found) => {
            findings::show(&found)?;
            return Err(Failure::Reported(Exit::Refused));
        }
    };
    let skill = &package.skill;
    let zip = to.map_or_else(|| PathBuf::from(format!("{}-{}.zip", skill.id, skill.version)), Path::to_owned);
    let place = place(&package.dir, &zip)?;
    let limits = install::limits(settings);
    let broken = |error| Failure::Broken(chain(&error));
    let unpacked = registry::pack(&package, &place, true).map_err(broken)?;
    let packed = place.metadata().map_err(Failure::broken("look at the zip"))?.len();
    // Compressed so well, it would be taken for a bomb.
    if unpacked > limits.ratio_from_bytes && unpacked > packed.saturating_mul(limits.max_ratio) {
        registry::pack(&package, &place, false).map_err(|error| Failure::Broken(chain(&error)))?;
    }
    // As an installation would read it.
    if let Err(error) = Archive::open(&place, &limits) {
        return Err(Failure::refused(
            error.code(),
            format!("{} is written, and too large to install: {error}", zip.display()),
        ));
    }
    let (bytes, sha256) = digest(&zip).map_err(Failure::broken(format!("read {}", zip.display())))?;
    if as_json {
        return output::json(&json!({
            "ok": true, "skill_id": skill.id, "version": skill.version.to_string(), "fingerprint": skill.fingerprint,
            "zip": zip, "bytes": bytes, "sha256": sha256, "files": package.files, "findings": skill.findings,
        }));
    }
    findings::show(&skill.findings)?;
    let message = format!("{} {} is packed in {}", skill.id, skill.version, zip.display());
    output::line(&Look::of(&io::stdout()).paint(Ink::Good, &message))?;
    let files = if package.files.len() == 1 { "file" } else { "files" };
    output::line(&format!("  {} {files}, {bytes} bytes\n  sha256 {sha256}", package.files.len()))
}

/// Where the zip is written. One in the package would be part of the next.
fn place(package: &Path, zip: &Path) -> Result<PathBuf, Failure> {
    let refused = |reason: &str| Err(Failure::Usage(format!("-o {}: {reason}", zip.display())));
    if zip.is_dir() {
        return refused("it is a folder; name the zip to write");
    }
    let parent = zip.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match parent.canonicalize() {
        Err(error) => refused(&format!("its folder cannot be used: {error}")),
        Ok(parent) if parent.starts_with(package) => {
            refused("it would be part of the package; choose a place outside with -o")
        }
        Ok(parent) => Ok(parent.join(zip.file_name().unwrap_or_default())),
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    for_each_chunk(
        File::open(path)?,
        |error| error,
        |chunk| {
            bytes += chunk.len() as u64;
            hasher.update(chunk);
            Ok::<(), io::Error>(())
        },
    )?;
    Ok((bytes, hex::encode(hasher.finalize())))
}

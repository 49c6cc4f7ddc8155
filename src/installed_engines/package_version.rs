//! The version of an npm package that a program was installed from, read from its `package.json`.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::bounded;
use crate::engine::Install;
use crate::files::read_beneath;

/// Longest `package.json` that is read.
const MANIFEST_MAX: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
}

/// The version of the package, if a word of the command is a file below `node_modules/<package>`.
pub(crate) fn installed_version(install: &Install, program: &[String]) -> Option<String> {
    let files = program.iter().filter_map(|word| fs::canonicalize(word).ok());
    files
        .filter_map(|file| manifest_of(install, &file))
        .find(|manifest| manifest.name == install.package)
        .map(|manifest| manifest.version)
}

fn manifest_of(install: &Install, file: &Path) -> Option<Manifest> {
    let modules = file.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "node_modules"))?;
    let path = Path::new(install.package).join("package.json");
    let bytes = read_beneath(modules, &path, MANIFEST_MAX).ok()??;
    bounded::json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTALL: Install = Install { package: "@some/cli", version: "9.9.9", program: &[] };

    #[test]
    fn the_version_is_that_of_the_package_which_the_program_belongs_to() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("node_modules");
        for (name, version) in [("@some/cli", "1.2.3"), ("other", "4.5.6")] {
            fs::create_dir_all(modules.join(name).join("bin")).unwrap();
            fs::write(modules.join(name).join("bin/cli.js"), "").unwrap();
            let manifest = format!(r#"{{"name": "{name}", "version": "{version}"}}"#);
            fs::write(modules.join(name).join("package.json"), manifest).unwrap();
        }
        fs::create_dir(modules.join(".bin")).unwrap();
        std::os::unix::fs::symlink("../@some/cli/bin/cli.js", modules.join(".bin/cli")).unwrap();
        let of = |words: &[&Path]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            installed_version(&INSTALL, &words)
        };
        let found = Some("1.2.3".to_owned());
        assert_eq!(of(&[&modules.join(".bin/cli")]), found, "through a link");
        assert_eq!(of(&[Path::new("/bin/sh"), &modules.join("@some/cli/bin/cli.js")]), found, "behind an interpreter");
        assert_eq!(of(&[Path::new("/bin/sh")]), None, "not from a package");
        fs::write(modules.join("@some/cli/package.json"), "{").unwrap();
        assert_eq!(of(&[&modules.join(".bin/cli")]), None, "a broken manifest");
    }
}

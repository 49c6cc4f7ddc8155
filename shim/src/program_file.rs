//! The file of a program, found as a shell would.

use crate::sys::{self, Errno, Result};
use crate::text::Path;
use crate::wire::Words;

/// Longest path that the kernel takes, with its NUL byte.
const PATH_MAX: usize = 4096;

/// The file of a program.
pub(crate) type ProgramPath = Path<PATH_MAX>;

/// Where to look when no PATH says it.
const USUAL_PLACES: &[u8] = b"/bin:/usr/bin";

/// The file to execute for a program of this name, which ends with a NUL byte: the name itself, if it is a path, else the
/// first of its name in a folder of the PATH that can be executed.
pub(crate) fn find(name: &[u8], env: Words<'_>) -> Result<ProgramPath> {
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    if name.is_empty() {
        return Err(Errno::NOENT);
    }
    if name.contains(&b'/') {
        let path = Path::of(&[name]).ok_or(Errno::NOENT)?;
        return can_run(&path).map(|()| path);
    }
    let mut refused = Errno::NOENT;
    for folder in places(env).split(|byte| *byte == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let Some(path) = Path::of(&[folder, b"/", name]) else { continue };
        match can_run(&path) {
            Ok(()) => return Ok(path),
            // Told if no other folder has it.
            Err(Errno::ACCES) => refused = Errno::ACCES,
            Err(_) => {}
        }
    }
    Err(refused)
}

fn places(env: Words<'_>) -> &[u8] {
    let last = env.filter_map(|variable| variable.strip_prefix(b"PATH=")?.strip_suffix(b"\0")).last();
    last.unwrap_or(USUAL_PLACES)
}

/// Whether it can be executed, and the interpreter, too, that its first line names.
fn can_run(path: &ProgramPath) -> Result<()> {
    sys::executable(path.ended()).map_err(|error| if error == Errno::NOTDIR { Errno::NOENT } else { error })?;
    // What may be executed but not read is no script.
    let Ok(file) = sys::open(path.ended()) else { return Ok(()) };
    let mut line = [0; 256];
    let read = sys::read(file, &mut line);
    sys::close(file);
    let begin = read.ok().and_then(|read| line.get(..read)).unwrap_or_default();
    match interpreter(begin).and_then(|interpreter| ProgramPath::of(&[interpreter])) {
        Some(interpreter) => sys::executable(interpreter.ended()),
        None => Ok(()),
    }
}

/// The interpreter that a script's beginning names.
fn interpreter(begin: &[u8]) -> Option<&[u8]> {
    let line = begin.strip_prefix(b"#!")?;
    // Without its end in sight it may be cut off; the kernel knows better.
    let end = line.iter().position(|byte| *byte == b'\n')?;
    let blank = |byte: &u8| *byte == b' ' || *byte == b'\t';
    line.get(..end)?.split(blank).find(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(interpreter(b"#!/bin/sh\necho"), Some(&b"/bin/sh"[..]));
        assert_eq!(interpreter(b"#! \t/usr/bin/env python3 -u\n"), Some(&b"/usr/bin/env"[..]));
        for none in [&b""[..], b"\x7fELF", b"#!\n", b"#!/bin/sh"] {
            assert_eq!(interpreter(none), None);
        }
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let root = std::env::temp_dir().join(format!("shim-program-file-{}", std::process::id()));
        let write = |name: &str, mode: u32, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write("a/plain", 0o644, "");
        write("a/tool", 0o644, "");
        write("b/tool", 0o755, "#!/bin/sh\n");
        write("b/lost", 0o755, "#!/no/such/interpreter\n");
        write("b/folder/x", 0o644, "");
        let root = root.to_str().unwrap();
        let env = format!("PATH=/nowhere\0PATH={root}/none:{root}/a:{root}/b\0");
        let found = |name: &str| {
            let found = find(format!("{name}\0").as_bytes(), Words::new(env.as_bytes()));
            found.map(|path| String::from_utf8_lossy(path.ended()).into_owned())
        };
        assert_eq!(found("tool"), Ok(format!("{root}/b/tool\0")));
        assert_eq!(found(&format!("{root}/b/tool")), Ok(format!("{root}/b/tool\0")));
        assert_eq!(found("plain"), Err(Errno::ACCES));
        assert_eq!(found("folder"), Err(Errno::ACCES));
        for absent in ["absent", "lost", "", &format!("{root}/b/lost"), &format!("{root}/b/tool/x")] {
            assert_eq!(found(absent), Err(Errno::NOENT), "{absent}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}

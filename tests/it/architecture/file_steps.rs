//! What changes files is seen by the simulation: it goes through `files`, or tells of each step.

use super::{sources, test_files};

/// Who changes files of runs and skills.
const CHANGE_FILES: [&str; 4] = ["orchestrator/", "workspace/", "registry/", "artifact/"];
const CHANGES: [&str; 16] = [
    "fs::write(",
    "fs::rename(",
    "fs::create_dir(",
    "fs::create_dir_all(",
    "fs::remove_file(",
    "fs::remove_file)",
    "fs::remove_dir(",
    "fs::remove_dir)",
    "fs::remove_dir_all(",
    "fs::hard_link(",
    "fs::copy(",
    "fs::set_permissions(",
    "File::create",
    "OpenOptions::new(",
    "DirBuilder::new(",
    ".set_len(",
];
/// A step is told of at most so many lines before it.
const NEAR: usize = 3;
/// The demo skills that the program carries are of no run, and are written again if they are not whole. The folder of an installation is
/// removed on the way out, which no step may break off.
const OTHERS: [(&str, &str); 2] =
    [("registry/builtin.rs", ""), ("registry/staging.rs", "fs::remove_dir_all(&self.dir)")];

/// Lines that change a file of which the simulation is not told.
fn untold(text: &str) -> Vec<&str> {
    // Tests are at the end of a file.
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().collect();
    let changes = |line: &str| !line.trim_start().starts_with("//") && CHANGES.iter().any(|call| line.contains(call));
    let told = |at: usize| lines[at.saturating_sub(NEAR)..at].iter().any(|line| line.contains("step("));
    (0..lines.len()).filter(|at| changes(lines[*at]) && !told(*at)).map(|at| lines[at].trim()).collect()
}

#[test]
fn each_change_of_a_file_of_a_run_is_a_step_of_the_simulation() {
    let in_tests = "fn f() {\n    fs::write(p, b);\n}\n\n#[cfg(test)]\nmod tests {\n    fs::rename(p, b)";
    assert_eq!(untold(in_tests), ["fs::write(p, b);"]);
    assert_eq!(untold("files::step(\"write\", p)?;\nfs::write(p, b);"), Vec::<&str>::new());
    let sources = sources();
    let tests = test_files(&sources);
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !tests.contains(&source.path)) {
        let path = source.path.display().to_string();
        if CHANGE_FILES.iter().any(|folder| path.starts_with(folder)) {
            let other = |line: &&str| OTHERS.iter().any(|(file, part)| path == *file && line.contains(part));
            let found = untold(&source.text).into_iter().filter(|line| !other(line));
            broken.extend(found.map(|line| format!("{path}: {line}")));
        }
    }
    assert!(broken.is_empty(), "change files by `files`, or tell of the step before:\n{}", broken.join("\n"));
}

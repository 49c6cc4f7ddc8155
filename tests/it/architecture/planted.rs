//! The list of planted faults fits the code: each has its place, and each test that must notice one is there.

use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
struct Planted {
    fault: Vec<Fault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    name: String,
    file: String,
    old: String,
    new: String,
    #[serde(default)]
    also: Vec<Change>,
    tests: Vec<String>,
}

/// Another place that is changed for the same fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    file: String,
    old: String,
    new: String,
}

#[test]
fn every_planted_fault_fits_the_code_once_and_its_tests_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("tests/planted.toml")).unwrap();
    let planted: Planted = toml::from_str(&text).unwrap();
    assert!(!planted.fault.is_empty());
    let sources =
        |folder: &str| super::sources_in(folder).into_iter().map(|source| source.text).collect::<Vec<_>>().join("\n");
    let (lib, it, simulation) = (sources("src"), sources("tests/it"), sources("tests/simulation"));
    let security = std::fs::read_to_string(root.join("docs/security.md")).unwrap();
    for fault in &planted.fault {
        let first = (&fault.file, &fault.old, &fault.new);
        let also = fault.also.iter().map(|change| (&change.file, &change.old, &change.new));
        for (file, old, new) in also.chain([first]) {
            let code = std::fs::read_to_string(root.join(file)).unwrap();
            assert_eq!(code.matches(old).count(), 1, "{}: the place in {file}", fault.name);
            assert_ne!(old, new, "{}", fault.name);
        }
        assert!(!fault.tests.is_empty(), "{}", fault.name);
        for test in &fault.tests {
            let (target, path) = test.split_once(' ').unwrap();
            let code = match target {
                "lib" => &lib,
                "it" => &it,
                "simulation" => &simulation,
                other => panic!("{}: there are no tests in {other}", fault.name),
            };
            let name = path.rsplit("::").next().unwrap();
            assert!(code.contains(&format!("fn {name}(")), "{}: there is no test {test}", fault.name);
            let protection = fault.name.strip_prefix("protection: ");
            let told = protection.is_none_or(|protection| security.contains(protection) && security.contains(name));
            assert!(told, "{}: docs/security.md does not name it, or not its test {test}", fault.name);
        }
    }
}

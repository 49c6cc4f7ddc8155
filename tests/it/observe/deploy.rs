//! The files for a deployment: the unit, the image and the compose file fit the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::support::{left_out, program};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The variables that a file sets, with their values where it has them.
fn variables(text: &str) -> BTreeMap<String, String> {
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let mut found = BTreeMap::new();
    for word in words {
        let word = word.trim_start_matches("Environment=");
        if let Some((name, value)) = word.split_once(['=', ':'])
            && (name.starts_with("SKILL_RUNNER_") || name.starts_with("OTEL_"))
        {
            found.insert(name.to_owned(), value.to_owned());
        }
    }
    found
}

#[test]
fn every_variable_of_the_image_the_unit_and_the_compose_file_is_a_setting() {
    let known = program().args(["config", "--json"]).output().unwrap();
    assert!(known.status.success(), "{}", String::from_utf8_lossy(&known.stderr));
    let known = String::from_utf8(known.stdout).unwrap();
    let mut count = 0;
    for file in [
        "Dockerfile",
        "deploy/systemd/skill-runner.service",
        "deploy/docker/compose.yaml",
        "deploy/docker/several.yaml",
    ] {
        for name in variables(&read(file)).into_keys() {
            let key = name.trim_start_matches("SKILL_RUNNER_").to_lowercase();
            let key = if name.starts_with("OTEL_") { "otlp_endpoint" } else { &key };
            assert!(known.contains(&format!("\"{key}\"")), "{file} sets {name}");
            count += 1;
        }
    }
    assert!(count >= 12, "{count}");
    // The values of the image are accepted, with a token.
    let mut config = program();
    let set = variables(&read("Dockerfile")).into_iter().filter(|(_, value)| !value.is_empty());
    config.envs(set.map(|(name, value)| (name, value.trim_end_matches('\\').to_owned())));
    let done = config.env("SKILL_RUNNER_TOKEN", "t0ken").arg("config").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// What the image copies from the project.
fn copied(dockerfile: &str) -> BTreeSet<&str> {
    let copies = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
    copies.filter(|line| !line.starts_with("--from")).flat_map(|line| line.split(' ').rev().skip(1)).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The build of the image would need minutes and a network; that it finds all its files needs neither.
#[test]
fn the_files_that_the_image_copies_are_a_whole_project() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let image = tempfile::tempdir().unwrap();
    for path in copied(&read("Dockerfile")) {
        let copy = Command::new("cp").arg("-a").arg(project.join(path)).arg(image.path()).status().unwrap();
        assert!(copy.success(), "{path}");
    }
    let asked = ["metadata", "--format-version=1", "--offline", "--locked", "--no-deps"];
    let told = Command::new(env!("CARGO")).args(asked).current_dir(image.path()).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let targets: Vec<&serde_json::Value> = told["packages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|package| package["targets"].as_array().unwrap())
        .collect();
    assert!(targets.iter().any(|target| target["name"] == "skill-runner"), "{targets:?}");
    for target in targets {
        assert!(Path::new(target["src_path"].as_str().unwrap()).is_file(), "{target}");
    }
    let mut files = Vec::new();
    sources(&image.path().join("src"), &mut files);
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let included =
            ["include_str!(\"", "include_bytes!(\""].map(|word| text.split(word).skip(1).collect::<Vec<_>>());
        for path in included.iter().flatten().map(|rest| rest.split('"').next().unwrap()) {
            assert!(file.parent().unwrap().join(path).is_file(), "{} includes {path}", file.display());
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn every_command_of_the_image_the_unit_and_the_page_is_one_of_the_program() {
    let (dockerfile, unit, page) =
        (read("Dockerfile"), read("deploy/systemd/skill-runner.service"), read("docs/deploy.md"));
    let words = |instruction: &str| -> Vec<String> {
        let line = dockerfile.lines().find_map(|line| line.strip_prefix(instruction)).unwrap();
        serde_json::from_str(line).unwrap()
    };
    assert_eq!(words("ENTRYPOINT "), ["skill-runner"]);
    let mut commands = vec![words("CMD ").join(" ")];
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/skill-runner ")).unwrap();
    commands.push(started.to_owned());
    let lines = page.lines().map(|line| line.trim_start_matches("sudo -u skill-runner "));
    let spans = page.split('`').skip(1).step_by(2);
    let of_page = lines.chain(spans).filter_map(|text| text.strip_prefix("skill-runner "));
    commands.extend(of_page.map(|text| text.split('#').next().unwrap().trim().to_owned()));
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let asked = program().args(command.split_whitespace()).arg("--help").output().unwrap();
        assert!(asked.status.success(), "{command}: {}", String::from_utf8_lossy(&asked.stderr));
    }
    // The health check and the first lines of the image use what the image installs.
    let installed = dockerfile.split("apt-get install").nth(1).unwrap().lines().next().unwrap();
    for needed in ["curl", "python3", "ca-certificates"] {
        assert!(installed.split(' ').any(|package| package == needed), "{installed}");
    }
    assert!(dockerfile.contains("CMD [\"curl\", "), "the health check");
}

#[test]
fn the_image_has_all_that_the_build_reads_and_runs_as_nobody_special() {
    let dockerfile = read("Dockerfile");
    let stages: Vec<&str> = dockerfile.lines().filter(|line| line.starts_with("FROM ")).collect();
    assert_eq!(stages.len(), 2, "{stages:?}");
    let copied = copied(&dockerfile);
    let ignored = read(".dockerignore");
    for path in &copied {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path}");
        assert!(ignored.lines().any(|line| line == format!("!{path}")), ".dockerignore hides {path}");
    }
    // What the sources and the manifest name outside their own folder.
    let manifest = read("Cargo.toml");
    let mut needed: BTreeSet<String> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \""))
        .map(|path| path.split('/').next().unwrap().to_owned())
        .collect();
    let build = read("build.rs");
    needed
        .extend(build.split("rerun-if-changed=").skip(1).map(|rest| rest.split(['"', '/']).next().unwrap().to_owned()));
    needed.extend(["Cargo.toml", "Cargo.lock", "build.rs", "schema", "src"].map(str::to_owned));
    for path in needed {
        assert!(copied.contains(path.as_str()), "the build reads {path}, and the image does not copy it");
    }
    let user = dockerfile.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(!user.starts_with("root") && !user.starts_with('0'), "{user}");
    assert!(dockerfile.contains("HEALTHCHECK") && dockerfile.contains("/healthz"));
}

/// The unit in a folder of its own, with the program that was built.
fn unit(folder: &Path) -> PathBuf {
    let text = read("deploy/systemd/skill-runner.service");
    let path = folder.join("skill-runner.service");
    let built = env!("CARGO_BIN_EXE_skill-runner");
    fs::write(&path, text.replace("/usr/local/bin/skill-runner", built)).unwrap();
    path
}

#[test]
fn systemd_accepts_the_unit_and_rates_it_as_the_page_says() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        left_out::tell("systemd-analyze is missing (Debian: systemd)", "the unit of systemd is accepted");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let unit = unit(folder.path());
    let checked = Command::new("systemd-analyze").arg("verify").arg(&unit).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && !said.contains("skill-runner.service:"), "{said}");
    let rated = Command::new("systemd-analyze").args(["security", "--offline=true"]).arg(&unit).output().unwrap();
    let rated = String::from_utf8_lossy(&rated.stdout).into_owned();
    let figure = rated.split("Overall exposure level for skill-runner.service: ").nth(1).unwrap();
    let figure: f64 = figure.split(' ').next().unwrap().parse().unwrap();
    let page = read("docs/deploy.md");
    let told = page.split("rates its exposure ").nth(1).unwrap().split(' ').next().unwrap().parse::<f64>().unwrap();
    // Other versions of systemd count other things.
    assert!((figure - told).abs() <= 1.0, "{figure} is not the {told} of docs/deploy.md");
}

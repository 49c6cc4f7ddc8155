//! `skill test`: runs the tests that a package brings, and tells where their outcome is not as expected.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};

use crate::bounded;
use crate::cli::failure::Failure;
use crate::cli::runtime::runtime;
use crate::cli::skill::test::carry_out::carry_out;
use crate::cli::skill::{findings, lifecycle};
use crate::cli::stop_signals::Stop;
use crate::cli::terminal::look::{Ink, Look, harmless, harmless_name, one_line};
use crate::cli::terminal::output;
use crate::domain::codes::Exit;
use crate::registry::{self, Installed, NotUsable, builtin};
use crate::settings::Settings;
use crate::skill::own_tests::{self, Came, Difference, FOLDER, OwnTest};
use crate::skill::schema::Validator;
use crate::skill::{Finding, Intake};

/// Longest value in a line about a difference.
const VALUE_MAX: usize = 200;
/// Longest file of tests.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// What came of a test.
#[derive(Debug, Serialize)]
struct Tested {
    name: String,
    file: String,
    ok: bool,
    took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    differences: Vec<Difference>,
    /// Why it could not be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(crate) fn test(settings: &Settings, skill: &str, as_json: bool) -> Result<(), Failure> {
    let written = tempfile::tempdir().map_err(Failure::broken("make a temporary folder"))?;
    let package = lifecycle::told(package(settings, skill, written.path(), as_json), as_json)?;
    let files = test_files(&package);
    if files.is_empty() {
        let place = package.dir.join(FOLDER);
        return Err(Failure::NotFound(format!(
            "{} has no tests; write one as {}/NAME.json:\n  {}",
            package.skill.id,
            place.display(),
            r#"{"name": "...", "input": {...}, "expect": {"output": {...}}}"#
        )));
    }
    let tested = runtime()?.block_on(all(settings, &package, &files, as_json))?;
    let failed = tested.iter().filter(|tested| !tested.ok).count();
    let passed = tested.len() - failed;
    if as_json {
        output::json(&json!({
            "ok": failed == 0, "skill_id": package.skill.id, "version": package.skill.version.to_string(),
            "passed": passed, "failed": failed, "tests": tested,
        }))?;
    } else {
        let look = Look::of(&io::stdout());
        let (ink, told) = match failed {
            0 => (Ink::Good, format!("{passed} passed")),
            _ => (Ink::Bad, format!("{failed} failed, {passed} passed")),
        };
        output::line(&look.paint(ink, &format!("{}: {told}", package.skill.id)))?;
    }
    if failed == 0 { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

/// The package: a folder, an installed skill, or one of the program's own.
fn package(settings: &Settings, skill: &str, written: &Path, as_json: bool) -> Result<Installed, Failure> {
    let broken = |found: Vec<Finding>| {
        if as_json {
            output::json(&json!({"ok": false, "findings": found}))?;
        } else {
            findings::show(&found)?;
        }
        Err(Failure::Reported(Exit::Refused))
    };
    if skill.contains(['/', '.']) {
        if !Path::new(skill).is_dir() {
            return Err(Failure::Usage(format!(
                "{skill} is not a folder; name the folder of a skill, or an installed skill"
            )));
        }
        return registry::load_dir(Path::new(skill), Intake::New).or_else(|why| broken(why.findings()));
    }
    let registry = lifecycle::registry(settings);
    match registry.lookup(skill) {
        Ok(installed) if installed.generated.is_some() => Err(Failure::Usage(format!(
            "{skill} comes from an agent's folder and has no tests; `skill-runner skill import` makes a package of it"
        ))),
        Ok(installed) => Ok(installed.as_ref().clone()),
        Err(why @ (NotUsable::Invalid { .. } | NotUsable::Unread(_))) => broken(why.findings()),
        Err(NotUsable::NotFound) if builtin::has(skill) => {
            let folder = builtin::write(written).map_err(Failure::broken("write the demo skills"))?;
            registry::load_dir(&folder.join(skill), Intake::Installed).or_else(|why| broken(why.findings()))
        }
        Err(NotUsable::NotFound) if Path::new(skill).is_dir() => Err(Failure::Usage(format!(
            "no skill {skill:?} is installed in {}; to test the folder, write ./{skill}",
            settings.paths.skills_dir.display()
        ))),
        Err(NotUsable::NotFound) => Err(lifecycle::unknown_everywhere(&registry, settings, skill)),
    }
}

/// The files of tests, relative to the package: `tests/*.json`, in the order of their names.
fn test_files(package: &Installed) -> Vec<String> {
    let is_test = |path: &&String| {
        path.strip_prefix(FOLDER).and_then(|rest| rest.strip_prefix('/')).is_some_and(|name| {
            !name.contains('/') && Path::new(name).extension().is_some_and(|extension| extension == "json")
        })
    };
    package.files.iter().filter(is_test).cloned().collect()
}

async fn all(
    settings: &Settings,
    package: &Installed,
    files: &[String],
    as_json: bool,
) -> Result<Vec<Tested>, Failure> {
    let mut stop = Stop::listen()?;
    let look = Look::of(&io::stdout());
    let scratch = tempfile::tempdir().map_err(Failure::broken("make a temporary folder"))?;
    let mut tested = Vec::new();
    for file in files {
        let tests = match read(&package.dir.join(file)) {
            Ok(tests) => tests,
            Err(problem) => {
                let one = not_run(file, file.clone(), problem);
                tell(&one, look, as_json)?;
                tested.push(one);
                continue;
            }
        };
        for test in tests {
            let one = tokio::select! {
                one = one(settings, package, file, &test, scratch.path()) => one,
                _ = stop.next() => return Err(Failure::Reported(Exit::Interrupted)),
            };
            tell(&one, look, as_json)?;
            tested.push(one);
        }
    }
    Ok(tested)
}

fn read(path: &PathBuf) -> Result<Vec<OwnTest>, String> {
    match fs::metadata(path) {
        Ok(found) if found.len() > FILE_MAX => return Err(format!("it has more than {FILE_MAX} bytes")),
        Ok(_) => {}
        Err(error) => return Err(error.to_string()),
    }
    own_tests::read(&fs::read_to_string(path).map_err(|error| error.to_string())?)
}

fn not_run(file: &str, name: String, problem: String) -> Tested {
    let (file, differences) = (file.to_owned(), Vec::new());
    Tested { name, file, ok: false, took_ms: 0, status: None, error: None, differences, problem: Some(problem) }
}

async fn one(settings: &Settings, package: &Installed, file: &str, test: &OwnTest, scratch: &Path) -> Tested {
    let usual = || Path::new(file).file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = test.name.clone().unwrap_or_else(usual);
    let schema = match schema_of(package, test) {
        Ok(schema) => schema,
        Err(problem) => return not_run(file, name, problem),
    };
    let began = Instant::now();
    let came = match carry_out(settings.clone(), package, test, scratch).await {
        Ok(came) => came,
        Err(failure) => return not_run(file, name, said(failure)),
    };
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let differences = own_tests::differences(&test.expect, schema.as_ref(), &came);
    let Came { status, error, .. } = came;
    let error = error.map(|(code, message)| json!({"code": code, "message": message}));
    let ok = differences.is_empty();
    Tested { name, file: file.to_owned(), ok, took_ms, status: Some(status), error, differences, problem: None }
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Usage(message) | Failure::Broken(message) | Failure::Unusable(message) => message,
        other => format!("{other:?}"),
    }
}

/// The schema that the data must match.
fn schema_of(package: &Installed, test: &OwnTest) -> Result<Option<Validator>, String> {
    let schema = match &test.expect.schema {
        None => return Ok(None),
        Some(Value::String(path)) if package.files.contains(path) => {
            let text = fs::read_to_string(package.dir.join(path)).map_err(|error| format!("{path}: {error}"))?;
            bounded::json::from_str(&text).map_err(|error| format!("{path} is not JSON: {error}"))?
        }
        Some(Value::String(path)) => return Err(format!("expect.schema: the package has no file {path:?}")),
        Some(inline) => inline.clone(),
    };
    Validator::new(&schema).map(Some).map_err(|error| format!("expect.schema: {error}"))
}

/// A line about a test, and what was wrong with it.
fn tell(tested: &Tested, look: Look, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return Ok(());
    }
    let Tested { name, file, took_ms, .. } = tested;
    let (name, file) = (harmless_name(name), harmless_name(file));
    if tested.ok {
        return output::line(&format!("{} {name} ({took_ms} ms)", look.paint(Ink::Good, "ok  ")));
    }
    output::line(&format!("{} {name} ({file})", look.paint(Ink::Bad, "FAIL")))?;
    if let Some(problem) = &tested.problem {
        output::line(&format!("     {problem}"))?;
    }
    for difference in &tested.differences {
        output::line(&format!("     {}", harmless(&difference.at)))?;
        let shown = |value: &Option<Value>| {
            value.as_ref().map_or_else(|| "nothing".to_owned(), |value| one_line(&value.to_string(), VALUE_MAX))
        };
        let expected = difference.rule.clone().unwrap_or_else(|| shown(&difference.expected));
        output::line(&look.paint(Ink::Good, &format!("       expected  {}", harmless(&expected))))?;
        output::line(&look.paint(Ink::Bad, &format!("       actual    {}", shown(&difference.actual))))?;
    }
    if let Some(error) = &tested.error {
        let text = |key: &str| one_line(error[key].as_str().unwrap_or_default(), 500);
        output::line(&format!("     {}: {}", text("code"), text("message")))?;
    }
    Ok(())
}

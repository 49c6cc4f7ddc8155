//! The subcommands of `skill`.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::global::Global;
use crate::cli::logging;
use crate::cli::skill::{authoring, findings, install, isolation, lifecycle, pack, show, test};
use crate::cli::terminal::fold::to_stderr;
use crate::cli::terminal::look::{Ink, Look, one_line};
use crate::cli::terminal::output;
use crate::domain::codes::Exit;
use crate::domain::engine::Engine;
use crate::registry::{self, Entry, Registry, builtin};
use crate::settings::{LogLevel, Paths, Settings};
use crate::skill::Intake;
use crate::skill::starter::{Language, Starter};

/// Longest description in a list.
const DESCRIPTION_MAX: usize = 60;

/// Writes, checks, tests, installs and shows skills, and takes them back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner skill new word-count
  skill-runner skill lint ./word-count
  skill-runner skill test ./word-count
  skill-runner skill install ./word-count
  skill-runner skill show word-count")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a skill's folder and lists every problem
    #[command(after_help = "Example:\n  skill-runner skill lint ./skills/demo-echo")]
    Lint {
        /// The skill's folder
        dir: PathBuf,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Writes a new skill that runs as it is and brings its tests, as a start for your own
    #[command(
        after_help = "Examples:\n  skill-runner skill new word-count\n  skill-runner skill new word-count --lang bash\n  skill-runner skill new sum-up --type hybrid --lang node\n  skill-runner skill new greeting --type interactive --into ./drafts"
    )]
    New {
        /// The skill's name: a-z, 0-9 and single -
        name: String,
        /// What carries out the skill
        #[arg(long = "type", value_enum, default_value_t = Kind::Script)]
        kind: Kind,
        /// What the script is written in [default: python]
        #[arg(long, value_enum)]
        lang: Option<Lang>,
        /// Folder to create the skill in
        #[arg(long, value_name = "DIR", default_value = ".")]
        into: PathBuf,
    },
    /// Runs the tests that a skill brings in tests/*.json
    ///
    /// Each says what to run and what to expect. Scripts run as they are; what an engine says is recorded output, so no engine is
    /// called. docs/skills.md describes the files.
    #[command(
        after_help = "Examples:\n  skill-runner skill test ./word-count\n  skill-runner skill test word-count --json"
    )]
    Test {
        /// The skill's folder (with a / in it), or an installed skill
        skill: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Checks a skill and writes its zip, which `skill install` takes; the same files give the same bytes
    #[command(
        after_help = "Examples:\n  skill-runner skill pack ./word-count\n  skill-runner skill pack ./word-count -o words.zip"
    )]
    Pack {
        /// The skill's folder
        dir: PathBuf,
        /// The zip to write [default: NAME-VERSION.zip in the working directory]
        #[arg(short, long, value_name = "ZIP")]
        output: Option<PathBuf>,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Installs a skill from a zip or a folder; a running service sees it at once
    ///
    /// An installed skill is replaced only by a newer version; the old one is kept in .archive.
    #[command(
        after_help = "Examples:\n  skill-runner skill install ./word-count\n  skill-runner skill install word-count.zip --skills-dir ./skills"
    )]
    Install {
        /// Zip that contains the skill's folder, or the folder itself
        source: PathBuf,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Writes complete skills from Agent Skills (folders with SKILL.md alone) or from an agent's folder (agent.yaml)
    ///
    /// Each gets a runner.json and schemas to refine; its own files are copied as they are.
    #[command(
        after_help = "Examples:\n  skill-runner skill import ./pdf-tools\n  skill-runner skill import ./collection-of-skills\n  skill-runner skill import skills.zip --into ./drafts\n  skill-runner skill import agents/accountant"
    )]
    Import {
        /// Folder of a skill, folder that holds several, zip of either, or folder of an agent
        source: PathBuf,
        /// Folder to write them to [default: the skills folder]
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Shows a skill: what it is, takes, returns and may do, its files, and what lint finds
    #[command(
        after_help = "Examples:\n  skill-runner skill show demo-echo\n  skill-runner skill show demo-echo --json"
    )]
    Show {
        /// The skill's name
        name: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Lists the versions of a skill: the one in place, and those in the archive
    #[command(after_help = "Example:\n  skill-runner skill versions word-count")]
    Versions {
        /// The skill's name
        name: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Puts an archived version of a skill in place; the one that is there goes to the archive
    ///
    /// Runs that have begun keep the version they began with. A running service sees the change at once.
    #[command(
        after_help = "Examples:\n  skill-runner skill rollback word-count 1.0.0\n  skill-runner skill rollback word-count 3f9a1c2be07d"
    )]
    Rollback {
        /// The skill's name
        name: String,
        /// A version of the archive, or the first 8 or more characters of its fingerprint
        version: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Moves a skill to the archive, from where `skill rollback` brings it back
    ///
    /// Runs that have begun, and those that wait for files or answers, keep their copy of it.
    #[command(after_help = "Example:\n  skill-runner skill uninstall word-count")]
    Uninstall {
        /// The skill's name
        name: String,
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
    /// Lists the installed skills and those of agents' folders
    #[command(after_help = "Example:\n  skill-runner skill list --skills-dir ./skills")]
    List {
        /// Print one JSON document
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// A script, without a model
    Script,
    /// An engine that follows a prompt
    Prompt,
    /// An engine, then a script that makes the result of what it said
    Hybrid,
    /// An engine that asks the user
    Interactive,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Lang {
    Python,
    Bash,
    Node,
}

/// What is to be written; a language without a script is a mistake.
fn starter(kind: Kind, lang: Option<Lang>) -> Result<Starter, Failure> {
    let language = match lang {
        None | Some(Lang::Python) => Language::Python,
        Some(Lang::Bash) => Language::Bash,
        Some(Lang::Node) => Language::Node,
    };
    match kind {
        Kind::Script => Ok(Starter::Script(language)),
        Kind::Hybrid => Ok(Starter::Hybrid(language)),
        Kind::Prompt | Kind::Interactive if lang.is_some() => {
            let message = "--lang: a skill of this --type has no script; leave it out, or use --type script or hybrid";
            Err(Failure::Usage(message.to_owned()))
        }
        Kind::Prompt => Ok(Starter::Prompt),
        Kind::Interactive => Ok(Starter::Interactive),
    }
}

pub(crate) fn skill(global: &Global, args: &Args) -> Result<(), Failure> {
    logging::to_terminal(LogLevel::Warn);
    match &args.command {
        Command::Lint { dir, json } => lint(&global.settings(&[])?, dir, *json),
        Command::New { name, kind, lang, into } => authoring::new(name, starter(*kind, *lang)?, into),
        Command::Test { skill, json } => test::test(&global.settings(&[])?, skill, *json),
        Command::Pack { dir, output, json } => pack::pack(&global.settings(&[])?, dir, output.as_deref(), *json),
        Command::Show { name, json } => show::show(&global.settings(&[])?, name, *json),
        Command::Install { source, json } => install::install(&global.settings(&[])?, source, *json),
        Command::Import { source, into } => {
            let settings = global.settings(&[])?;
            if into.is_none() {
                lifecycle::not_shared(&settings)?;
            }
            let into = into.as_ref().unwrap_or(&settings.paths.skills_dir);
            authoring::import(source, into, &install::limits(&settings))
        }
        Command::Versions { name, json } => lifecycle::versions(&global.settings(&[])?, name, *json),
        Command::Rollback { name, version, json } => lifecycle::rollback(&global.settings(&[])?, name, version, *json),
        Command::Uninstall { name, json } => lifecycle::uninstall(&global.settings(&[])?, name, *json),
        Command::List { json } => list(&global.settings(&[])?.paths, *json),
    }
}

fn lint(settings: &Settings, dir: &Path, as_json: bool) -> Result<(), Failure> {
    if !dir.is_dir() {
        return Err(Failure::Usage(format!("{} is not a folder; name the folder of a skill", dir.display())));
    }
    let (skill, findings) = match registry::load_dir(dir, Intake::New) {
        Ok(installed) => {
            let skill = &installed.skill;
            let findings = skill.findings.iter().cloned().chain(isolation::findings(settings, skill)).collect();
            (Some(format!("{} {}", skill.id, skill.version)), findings)
        }
        Err(why) => (None, why.findings()),
    };
    if as_json {
        output::json(&json!({"ok": skill.is_some(), "findings": findings}))?;
    } else {
        findings::show(&findings)?;
        let look = Look::of(&io::stdout());
        if let Some(skill) = &skill {
            output::line(&look.paint(Ink::Good, &format!("{skill} is ok")))?;
        }
    }
    if skill.is_some() { Ok(()) } else { Err(Failure::Reported(Exit::Failed)) }
}

fn list(paths: &Paths, as_json: bool) -> Result<(), Failure> {
    let skills_dir = &paths.skills_dir;
    let entries = Registry::new(skills_dir).with_agents(&paths.agents_dir).list()?;
    if as_json {
        return output::json(&json!({"skills": entries.iter().map(as_value).collect::<Vec<_>>()}));
    }
    if entries.is_empty() {
        to_stderr(&format!(
            "there are no skills in {}; choose another folder with --skills-dir, or write one with `skill-runner skill new NAME` and install it\n  \
             the program has demo skills of its own: {}",
            skills_dir.display(),
            builtin::ids().join(", ")
        ));
    }
    let look = Look::of(&io::stdout());
    for entry in &entries {
        match entry {
            Entry::Valid(installed) => {
                let skill = &installed.skill;
                let about = one_line(&skill.description, DESCRIPTION_MAX);
                let engines = Engine::names(&skill.effective_engines()).replace(", ", ",");
                output::line(&format!("{:<24} {:<10} {engines:<10} {about}", skill.id, skill.version.to_string()))?;
            }
            Entry::Invalid { folder, findings } => {
                let first = findings.first().map(|finding| finding.message.as_str()).unwrap_or_default();
                output::line(&look.paint(Ink::Bad, &format!("{folder:<24} invalid: {first}")))?;
            }
        }
    }
    Ok(())
}

fn as_value(entry: &Entry) -> Value {
    match entry {
        Entry::Valid(installed) => {
            let skill = &installed.skill;
            json!({
                "id": skill.id,
                "version": skill.version.to_string(),
                "name": skill.name,
                "description": skill.description,
                "engines": skill.effective_engines(),
                "execution_modes": skill.manifest.execution_modes,
                "valid": true,
                "findings": skill.findings,
            })
        }
        Entry::Invalid { folder, findings } => json!({"id": folder, "valid": false, "findings": findings}),
    }
}

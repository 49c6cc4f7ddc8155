//! The Python packages that a skill's commands need: declared in the manifest, or in the head of a script.

mod inline;
mod requirement;
mod version;

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use super::command;
use super::manifest::{Manifest, PythonPackages, Requirements};
use super::package::{NoText, PackageFiles};

pub(crate) use requirement::{Fault, Requirement};
pub(crate) use version::Specifiers;

/// Most packages that a command may ask for.
const REQUIREMENTS_MAX: usize = 1000;

/// Changes when environments are made in another way, so that none of the old way is used.
const FORMAT: &str = "python-environment/2";

/// What an environment has to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Sorted, each once.
    pub(crate) requirements: Vec<Requirement>,
    /// The versions of Python that fit.
    pub(crate) python: Option<String>,
    /// The environment with this content.
    pub(crate) id: String,
}

/// What each command of a skill needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PythonNeeds {
    pub(crate) script: Option<Needs>,
    pub(crate) normalizer: Option<Needs>,
    pub(crate) fallback: Option<Needs>,
}

/// A command of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Script,
    Normalizer,
    Fallback,
}

impl PythonNeeds {
    /// What the commands of a package that passed the lint need.
    pub(crate) fn of(manifest: &Manifest, files: &PackageFiles) -> Self {
        let fingerprint = || files.fingerprint();
        let declared = manifest.runtime.python.as_ref().and_then(|written| declared(written, files).ok());
        let needs = |command: Option<&String>| {
            let found = match (&declared, command) {
                (Some(declared), Some(_)) => Some(declared.clone()),
                (None, Some(command)) => inline_of(command, files).and_then(|(_, found)| found.ok()),
                (_, None) => None,
            };
            found.map(|written| written.needs(fingerprint))
        };
        let output_command = |written: &Option<super::manifest::OutputCommand>| {
            written.as_ref().filter(|written| written.enabled).map(|written| written.command.clone())
        };
        let mut all = Self {
            script: needs(manifest.entrypoint.script.as_ref().map(|script| &script.command)),
            normalizer: needs(output_command(&manifest.normalizer).as_ref()),
            fallback: needs(output_command(&manifest.fallback).as_ref()),
        };
        all.keep_to_skill(fingerprint);
        all
    }

    /// Several environments are filled together, and the code of a package that is built for one could write to the others. So
    /// these are the skill's alone.
    fn keep_to_skill(&mut self, fingerprint: impl Fn() -> String) {
        let mut needs: Vec<&mut Needs> =
            [&mut self.script, &mut self.normalizer, &mut self.fallback].into_iter().flatten().collect();
        if needs.windows(2).all(|pair| pair[0].id == pair[1].id) {
            return;
        }
        let fingerprint = fingerprint();
        for needs in &mut needs {
            needs.id = hex::encode(Sha256::digest(format!("{} {fingerprint}", needs.id)));
        }
    }

    pub(crate) fn command(&self, command: Command) -> Option<&Needs> {
        match command {
            Command::Script => self.script.as_ref(),
            Command::Normalizer => self.normalizer.as_ref(),
            Command::Fallback => self.fallback.as_ref(),
        }
    }
}

/// A declaration, read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    requirements: Vec<Requirement>,
    python: Option<String>,
}

impl Written {
    fn checked(requirements: Vec<Requirement>, python: Option<String>) -> Result<Self, Fault> {
        if let Some(written) = &python {
            Specifiers::parse(written).map_err(|reason| Fault::new("python", reason))?;
        }
        Ok(Self { requirements, python })
    }

    fn needs(mut self, fingerprint: impl Fn() -> String) -> Needs {
        self.requirements.sort();
        self.requirements.dedup();
        let mut hasher = Sha256::new();
        let mut add = |part: &str| {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part.as_bytes());
        };
        add(FORMAT);
        add(self.python.as_deref().unwrap_or_default());
        self.requirements.iter().for_each(|requirement| add(requirement.text()));
        if self.requirements.iter().any(|requirement| requirement.path().is_some()) {
            // What the package brings along is known by its content alone.
            add(&fingerprint());
        }
        let id = hex::encode(hasher.finalize());
        Needs { requirements: self.requirements, python: self.python, id }
    }
}

/// What `runtime.python` declares.
pub(crate) fn declared(written: &PythonPackages, files: &PackageFiles) -> Result<Written, Fault> {
    let lines = match &written.requirements {
        Requirements::Listed(lines) => lines.clone(),
        Requirements::File(path) => requirement::lines(text_of(path, files)?),
    };
    few(lines.len()).map_err(|reason| Fault::new("requirements", reason))?;
    let requirements = lines.iter().enumerate().map(|(index, line)| {
        Requirement::parse(line, files).map_err(|reason| match &written.requirements {
            Requirements::Listed(_) => Fault::new(format!("requirements/{index}"), reason),
            Requirements::File(path) => Fault::new("requirements", format!("{path}: {reason}")),
        })
    });
    Written::checked(requirements.collect::<Result<_, _>>()?, written.python.clone())
}

/// Each is looked for among all files of the package.
fn few(requirements: usize) -> Result<(), String> {
    if requirements > REQUIREMENTS_MAX {
        return Err(format!("{requirements} requirements are more than {REQUIREMENTS_MAX}"));
    }
    Ok(())
}

fn text_of<'a>(path: &str, files: &'a PackageFiles) -> Result<&'a str, Fault> {
    files.text(path).map_err(|why| {
        let reason = match why {
            NoText::Absent => format!("the package has no file {path:?}"),
            NoText::TooLarge => format!("{path:?} is longer than 1 MiB"),
            NoText::NotUtf8 => format!("{path:?} is not UTF-8 text"),
        };
        Fault::new("requirements", reason)
    })
}

/// The script of a command that brings its own declaration, and what that says.
pub(crate) fn inline_of<'a>(command: &str, files: &'a PackageFiles) -> Option<(String, Result<Written, Fault>)> {
    let words = command::split(command).ok()?;
    let mut looked_at = HashSet::new();
    words.iter().map(|word| command::package_path(word)).filter(|path| looked_at.insert(*path)).find_map(|path| {
        let text: &'a str = files.text(path).ok().filter(|_| path.ends_with(".py"))?;
        let found = inline::read(text)?;
        let checked = found.and_then(|inline::Inline { dependencies, python }| {
            few(dependencies.len()).map_err(|reason| Fault::new("", reason))?;
            let requirement = |line: &String| Requirement::parse(line, files).map_err(|reason| Fault::new("", reason));
            Written::checked(dependencies.iter().map(requirement).collect::<Result<_, _>>()?, python)
        });
        Some((path.to_owned(), checked))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(entries: &[(&str, &str)]) -> PackageFiles {
        let mut files = PackageFiles::new();
        entries.iter().for_each(|(path, text)| files.insert(*path, text.as_bytes().to_vec()));
        files
    }

    fn id(requirements: Requirements, python: Option<&str>, files: &PackageFiles) -> String {
        let written = PythonPackages { requirements, python: python.map(str::to_owned) };
        declared(&written, files).unwrap().needs(|| files.fingerprint()).id
    }

    fn listed(lines: &[&str]) -> Requirements {
        Requirements::Listed(lines.iter().map(|line| (*line).to_owned()).collect())
    }

    #[test]
    fn equal_needs_share_an_environment_however_they_are_written_and_other_needs_have_another() {
        let package = files(&[("requirements.txt", "# what it needs\nb >= 2\n\na==1 # first\n"), ("w/x-1.whl", "1")]);
        let one = id(listed(&["a==1", "b >= 2"]), None, &package);
        assert_eq!(one, id(listed(&["b >= 2", "a==1", "a==1"]), None, &package));
        assert_eq!(one, id(Requirements::File("requirements.txt".into()), None, &package));
        let changed = files(&[("SKILL.md", "other")]);
        assert_eq!(one, id(listed(&["a==1", "b >= 2"]), None, &changed), "the rest of the package has no part in it");
        assert_ne!(one, id(listed(&["a==1"]), None, &package));
        assert_ne!(one, id(listed(&["a==1", "b >= 2"]), Some(">=3.10"), &package));
        let brought = id(listed(&["./w/x-1.whl"]), None, &package);
        let other = files(&[("w/x-1.whl", "2")]);
        assert_ne!(brought, id(listed(&["./w/x-1.whl"]), None, &other), "a file of the package counts by its content");
    }

    #[test]
    fn environments_that_are_filled_together_are_shared_with_no_other_skill() {
        let package = files(&[]);
        let needs = |line: &str| {
            let written = PythonPackages { requirements: listed(&[line]), python: None };
            Some(declared(&written, &package).unwrap().needs(|| files(&[]).fingerprint()))
        };
        let kept = |script: &str, normalizer: &str, fingerprint: &str| {
            let mut all = PythonNeeds { script: needs(script), normalizer: needs(normalizer), fallback: None };
            all.keep_to_skill(|| fingerprint.to_owned());
            [all.script.unwrap().id, all.normalizer.unwrap().id]
        };
        let shared = needs("a==1").unwrap().id;
        assert_eq!(kept("a==1", "a==1", "one"), [shared.clone(), shared.clone()]);
        let [evil, a] = kept("evil==1", "a==1", "one");
        assert!(a != shared && evil != a && evil != needs("evil==1").unwrap().id);
        assert_eq!(kept("evil==1", "a==1", "one"), [evil, a.clone()]);
        assert_ne!(kept("evil==1", "a==1", "another")[1], a);
    }

    #[test]
    fn requirements_without_end_are_refused() {
        let package = files(&[("w/x", "1")]);
        let many = Requirements::Listed(vec!["./w".to_owned(); 1001]);
        let fault = declared(&PythonPackages { requirements: many, python: None }, &package).unwrap_err();
        assert_eq!(
            (fault.key.as_str(), fault.reason.as_str()),
            ("requirements", "1001 requirements are more than 1000")
        );
    }
}

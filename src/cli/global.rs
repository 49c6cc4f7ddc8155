//! The flags of every command, and the settings made from file, environment and flags.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::cli::failure::Failure;
use crate::files;
use crate::settings::{Problem, Settings};

/// The configuration file looked for in the working directory.
pub(crate) const USUAL_FILE: &str = "skill-runner.yaml";
/// Most bytes of it.
const FILE_MAX: u64 = 64 * 1024;

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Configuration file [default: skill-runner.yaml in the working directory, if it exists]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,
    /// Folder for runs, the event store and logs [default: ./data]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Configuration")]
    data_dir: Option<String>,
    /// Folder of the installed skills [default: ./skills]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Configuration")]
    skills_dir: Option<String>,
    /// Where the log of runs is kept: sled or postgres://USER:PASSWORD@HOST/DATABASE [default: sled]
    #[arg(long, global = true, value_name = "STORE", help_heading = "Configuration")]
    store: Option<String>,
    /// Log level: TRACE, DEBUG, INFO, WARN or ERROR [default: INFO]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Configuration")]
    log_level: Option<String>,
}

impl Global {
    /// The settings in force; `more` are flags of the command, by the names of their settings.
    pub(crate) fn settings(&self, more: &[(&str, Option<String>)]) -> Result<Settings, Failure> {
        let own = [
            ("data_dir", &self.data_dir),
            ("skills_dir", &self.skills_dir),
            ("store", &self.store),
            ("log_level", &self.log_level),
        ];
        let more = more.iter().map(|(name, value)| (*name, value));
        let flags: Vec<(String, String)> =
            own.into_iter().chain(more).filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
        let env: BTreeMap<String, String> = std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .collect();
        let file = self.file()?;
        let file = file.as_ref().map(|(path, text)| (path.as_str(), text.as_str()));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut settings = Settings::load(file, &env, &flags, cores).map_err(Failure::Configuration)?;
        make_absolute(&mut settings)?;
        Ok(settings)
    }

    /// The configuration file's path and text.
    fn file(&self) -> Result<Option<(String, String)>, Failure> {
        let path = self.config.as_deref().unwrap_or(Path::new(USUAL_FILE));
        let wrong = |message: String| {
            let (key, place) = ("the file".to_owned(), path.display().to_string());
            Failure::Configuration(vec![Problem { key, place, message }])
        };
        match files::read_regular(path, FILE_MAX) {
            Ok(Some(text)) => match String::from_utf8(text) {
                Ok(text) => Ok(Some((path.display().to_string(), text))),
                Err(_) => Err(wrong("is not UTF-8 text".to_owned())),
            },
            Ok(None) => Err(wrong(format!("has more than {FILE_MAX} bytes"))),
            Err(error) if self.config.is_none() && error.kind() == ErrorKind::NotFound => Ok(None),
            Err(_) if path.is_symlink() => {
                let target = std::fs::read_link(path).unwrap_or_default();
                Err(wrong(format!(
                    "is a link, and links are not followed: whoever can change it chooses the settings; give the file \
                     itself with --config ({})",
                    target.display()
                )))
            }
            Err(error) => Err(wrong(format!("cannot be read: {}", error.source))),
        }
    }
}

/// Engines run in other working directories, where a relative path would point elsewhere.
fn make_absolute(settings: &mut Settings) -> Result<(), Failure> {
    let paths = &mut settings.paths;
    let all = [
        &mut paths.data_dir,
        &mut paths.skills_dir,
        &mut paths.agents_dir,
        &mut paths.configs_dir,
        &mut paths.agent_home,
        &mut paths.npm_prefix,
        &mut paths.backup_dir,
        &mut settings.log.file,
    ];
    for path in all.into_iter().chain(&mut settings.log.access).chain(&mut paths.config_file) {
        *path = std::path::absolute(&*path).map_err(Failure::broken("find the working directory"))?;
    }
    Ok(())
}

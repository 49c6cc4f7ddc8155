//! What `serve` says at its start and when it is told to end.

use std::path::Path;

use tracing::warn;

use crate::cli::failure::Failure;
use crate::cli::terminal::look::one_line;
use crate::cli::terminal::output;
use crate::domain::statechart::Status;
use crate::installed_engines::{InstalledEngines, operator_config};
use crate::orchestrator::{ListFilter, Orchestrator};
use crate::registry::Entry;
use crate::store::RunFilter;

/// Most names in a list.
const NAMES_MAX: usize = 20;

/// Says what the service works with: data folder, recovered runs, skills, engines. Takes some time.
pub(super) fn tell(orchestrator: &Orchestrator) -> Result<(), Failure> {
    let paths = &orchestrator.settings().paths;
    output::line(&format!("data: {}", paths.data_dir.display()))?;
    let retention = &orchestrator.settings().retention;
    if retention.deletes() {
        output::line(&format!("retention: {}", retention.in_words()))?;
    }
    if let Some(otlp) = &orchestrator.settings().otlp {
        output::line(&format!("traces and metrics: sent to {}", otlp.endpoint))?;
    }
    let recovered = orchestrator.recovered();
    if recovered > 0 {
        output::line(&format!("runs recovered from an earlier service: {recovered}"))?;
    }
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for entry in orchestrator.registry().list()? {
        match entry {
            Entry::Valid(installed) => found.push(installed.skill.id.clone()),
            Entry::Invalid { folder, findings } => {
                let reason = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
                refused.push(format!("{folder}: {}", one_line(&reason, 200)));
            }
        }
    }
    if orchestrator.registry().demos()?.is_empty() {
        output::line(&format!("skills: {} in {}", names(&found), paths.skills_dir.display()))?;
    } else {
        let demos = names(&found);
        output::line(&format!("skills: none in {}; until there are, the demos: {demos}", paths.skills_dir.display()))?;
        found.clear();
    }
    for skill in refused.iter().take(NAMES_MAX) {
        output::line(&format!("  refused: {skill}; `skill-runner skill lint` says more"))?;
    }
    if found.is_empty() {
        no_skills(&paths.skills_dir);
    }
    for problem in operator_config::problems(&paths.configs_dir) {
        warn!("{problem}; runs on that engine fail until it is mended");
    }
    tell_engines(orchestrator.installed_engines())
}

fn no_skills(skills_dir: &Path) {
    let folder = skills_dir.display();
    let advice = "write a skill with `skill-runner skill new NAME`, install it with `skill-runner skill install ./NAME`, or name \
        another folder with --skills-dir";
    if skills_dir.is_dir() {
        warn!(%folder, "the skills folder has no skill that can be used; {advice}");
    } else {
        warn!(%folder, "there is no skills folder; {advice}");
    }
}

fn tell_engines(engines: &InstalledEngines) -> Result<(), Failure> {
    let statuses = engines.statuses();
    let ready = |status: &&crate::installed_engines::Status| status.installed && status.auth_ready;
    let named: Vec<String> = statuses.iter().filter(ready).map(|status| status.engine.to_string()).collect();
    output::line(&format!("engines ready: {}; `skill-runner engines` says more", names(&named)))
}

/// The runs that a service waits for before it ends, as a sentence; none if there is none.
pub(super) async fn waits_for(orchestrator: &Orchestrator, seconds: u64) -> Option<String> {
    let filter = ListFilter {
        runs: RunFilter { status: Some(Status::Running), ..RunFilter::default() },
        limit: NAMES_MAX,
        ..ListFilter::default()
    };
    let running = orchestrator.list(&filter).await.ok()?;
    let runs: Vec<String> = running.jobs.iter().map(|job| job.run_id.to_string()).collect();
    (!runs.is_empty()).then(|| {
        format!("waiting up to {seconds} s for the runs {}; press Ctrl-C again to end them at once", runs.join(", "))
    })
}

fn names(all: &[String]) -> String {
    if all.is_empty() {
        return "none".to_owned();
    }
    let more = all.len().saturating_sub(NAMES_MAX);
    let shown = all[..all.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_names_is_cut_and_counted() {
        assert_eq!(names(&[]), "none");
        let many: Vec<String> = (1..=22).map(|n| n.to_string()).collect();
        assert!(names(&many).ends_with("19, 20 and 2 more"));
        assert_eq!(names(&many[..2]), "1, 2");
    }
}

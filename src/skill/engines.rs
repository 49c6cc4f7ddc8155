//! Which engines a skill can run on.

use super::manifest::EntrypointKind;

/// The engines that run prompts, in the order in which they are tried.
pub const PROMPT_ENGINES: [&str; 6] = ["codex", "gemini", "opencode", "iflow", "claude", "qwen"];

/// The engine of script skills.
pub const SCRIPT_ENGINE: &str = "script";

pub(crate) fn effective_engines(
    kind: EntrypointKind,
    engines: Option<&[String]>,
    unsupported: &[String],
) -> Vec<String> {
    let wanted: Vec<String> = match (kind, engines) {
        (EntrypointKind::Script, _) => vec![SCRIPT_ENGINE.into()],
        (EntrypointKind::Prompt | EntrypointKind::Hybrid, Some(named)) => {
            named.iter().filter(|engine| *engine != SCRIPT_ENGINE).cloned().collect()
        }
        (EntrypointKind::Prompt | EntrypointKind::Hybrid, None) => PROMPT_ENGINES.map(String::from).to_vec(),
    };
    wanted.into_iter().filter(|engine| !unsupported.contains(engine)).collect()
}

//! Which engines a skill can run on.

use super::manifest::EntrypointKind;
use crate::domain::engine::Engine;

/// The engines for skills of a kind: a script runs on the script engine alone, unless it brings a prompt for the others, and a
/// prompt never does.
pub(crate) fn effective_engines(
    kind: EntrypointKind,
    has_prompt: bool,
    engines: Option<&[Engine]>,
    unsupported: &[Engine],
) -> Vec<Engine> {
    let wanted: Vec<Engine> = match (kind, engines) {
        (EntrypointKind::Script, Some(named)) if has_prompt => named.to_vec(),
        (EntrypointKind::Script, None) if has_prompt => {
            [Engine::Script].iter().chain(Engine::AGENTS).copied().collect()
        }
        (EntrypointKind::Script, _) => vec![Engine::Script],
        (EntrypointKind::Prompt | EntrypointKind::Hybrid, Some(named)) => {
            named.iter().copied().filter(|engine| *engine != Engine::Script).collect()
        }
        (EntrypointKind::Prompt | EntrypointKind::Hybrid, None) => Engine::AGENTS.to_vec(),
    };
    wanted.into_iter().filter(|engine| !unsupported.contains(engine)).collect()
}

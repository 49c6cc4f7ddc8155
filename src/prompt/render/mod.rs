//! The prompt: a template filled with the run's values, and the contract at its end.

mod variables;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use minijinja::{Environment, UndefinedBehavior, value::Serde};
use serde_json::{Map, Value, json};

use super::contract;
use crate::bounded;
use crate::domain::codes::ErrorCode;
use crate::domain::engine::Engine;
use crate::domain::outcome::RunError;
use crate::domain::plain_json::Plain;
use crate::domain::request::ExecutionMode;
use crate::skill::Skill;
use crate::skill::input_schema::properties;
use crate::skill::manifest::{Entrypoint, EntrypointKind, Template};

/// The template of skills that bring none.
const BUILT_IN: &str = include_str!("builtin.jinja");
/// Steps a template may take; a page of text with loops needs some thousands.
const FUEL: u64 = 1_000_000;
/// Longest prompt, in bytes.
pub(crate) const PROMPT_MAX: usize = 4 * 1024 * 1024;

/// Which template a skill has for an engine: the engine's own, the general one, else the built-in.
pub(crate) fn template(entrypoint: &Entrypoint, engine: Engine) -> Template<'_> {
    let written = entrypoint.prompts.get(&engine).or(entrypoint.prompt.template.as_ref());
    written.map_or(Template::Inline(BUILT_IN), |written| Template::of(written))
}

/// The values a template can use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    pub(crate) skill: &'a Skill,
    /// The run's copy of the package.
    pub(crate) skill_dir: &'a Path,
    pub(crate) run_dir: &'a Path,
    /// Resolved inputs: files as absolute paths.
    pub(crate) input: &'a Map<String, Value>,
    pub(crate) parameter: &'a Map<String, Value>,
    pub(crate) mode: ExecutionMode,
    /// How the engine is to hand over its answer.
    pub(crate) answer: contract::Answer<'a>,
}

/// Why there is no prompt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the prompt template cannot be rendered: {reason}")]
pub struct TemplateFailed {
    /// The message of the template library, or what became of the process.
    pub reason: String,
}

impl From<TemplateFailed> for RunError {
    fn from(failed: TemplateFailed) -> Self {
        RunError::new(ErrorCode::PromptTemplateFailed, failed.to_string())
    }
}

/// Which templates need not be rendered apart.
pub(crate) fn is_built_in(template: &str) -> bool {
    template == BUILT_IN
}

/// Whether the engine is told the contract with this template: always, unless the skill's own template brings one.
pub(crate) fn has_contract(entrypoint: &Entrypoint, engine: Engine) -> bool {
    let own = match template(entrypoint, engine) {
        Template::Inline(text) => !is_built_in(text),
        Template::Path(_) => true,
    };
    !own || entrypoint.prompt.contract != Some(false)
}

/// The prompt: the rendered template, with the contract at its end unless the template opts out. A template that does not
/// speak of the output schema gets that, too. `evaluate` renders a template with values.
pub(crate) fn render(
    template: &str,
    values: &Values<'_>,
    evaluate: impl FnOnce(&str, &Value) -> Result<String, TemplateFailed>,
) -> Result<String, TemplateFailed> {
    let skill = values.skill;
    let fields = |schema: &Value| properties(schema).map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let mut rendered = evaluate(
        template,
        &json!({
            "input": values.input,
            "parameter": values.parameter,
            "skill": {
                "id": skill.id,
                "name": skill.name,
                "version": skill.version.to_string(),
                "description": skill.description,
                "dir": values.skill_dir.to_string_lossy(),
            },
            "run_dir": values.run_dir.to_string_lossy(),
            "body": skill.body,
            "output_schema": skill.output_schema,
            "execution_mode": values.mode.as_str(),
            "script_makes_result": skill.manifest.entrypoint.kind == EntrypointKind::Hybrid,
            "message_is_result": contract::takes_text(&skill.manifest.entrypoint.prompt),
            (variables::FIELDS): {
                "input": fields(&skill.input_schema),
                "parameter": fields(&skill.parameter_schema),
            },
        }),
    )?;
    if !is_built_in(template) && skill.manifest.entrypoint.prompt.contract == Some(false) {
        return Ok(rendered);
    }
    let free = matches!(values.answer, contract::Answer::Words | contract::Answer::Text);
    let needs_schema = !free && !template.contains("output_schema");
    if needs_schema {
        rendered.truncate(rendered.trim_end().len());
        // Writing to a string cannot fail.
        let _ = write!(rendered, "\n\n# Output schema\n\n{:#}", skill.output_schema);
    }
    Ok(contract::append(&rendered, values.mode, values.answer))
}

/// Renders a template. One of a package may take any amount of memory and stack, so it is rendered in a process of its own.
pub(crate) fn evaluate(template: &str, values: &Value) -> Result<String, TemplateFailed> {
    if let Some(reason) = bounded::template::fault(template) {
        return Err(TemplateFailed { reason });
    }
    let mut environment = Environment::new();
    // A field that is not given is an empty text, and a template may test whether it is defined. A name that is no field is
    // an error, which is found before.
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_fuel(Some(FUEL));
    let failed = |error: minijinja::Error| TemplateFailed { reason: described(&error) };
    let template = environment.template_from_named_str("prompt", template).map_err(failed)?;
    let globals: BTreeSet<&str> = environment.globals().map(|(name, _)| name).collect();
    if let Some(reason) = variables::unknown(template.undeclared_variables(true), &globals, values) {
        return Err(TemplateFailed { reason });
    }
    let mut prompt = Bounded(Vec::new());
    template.render_captured_to(Serde(Plain(values)), &mut prompt).map_err(failed)?;
    String::from_utf8(prompt.0).map_err(|error| TemplateFailed { reason: error.to_string() })
}

fn described(error: &minijinja::Error) -> String {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        let _ = write!(reason, ": {cause}");
        source = cause.source();
    }
    reason
}

/// A buffer that takes at most `PROMPT_MAX` bytes.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > PROMPT_MAX {
            return Err(io::Error::other(format!("the prompt is longer than {PROMPT_MAX} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

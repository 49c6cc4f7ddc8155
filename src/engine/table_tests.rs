//! The table of engines in the documentation is made from the adapters.

use super::adapter::Adapter;
use super::adapters;
use super::config::ModelVariables;
use super::launch::Streams;
use crate::domain::engine::Engine;

const BEGIN: &str = "<!-- Made from the adapters. To write it anew: UPDATE_DOCS=1 cargo test --lib engine -->\n";
const HEAD: &str = "| engine | package | measured version | state | result handed over by | effort | model listed by | variable with a model | output goes through | sandbox of its own | session |\n\
    | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";

fn row(adapter: &Adapter) -> String {
    let name = adapter.name();
    let (package, version) = match &adapter.install {
        Some(install) => (format!("`{}`", install.package), install.version),
        None => ("—".to_owned(), "—"),
    };
    let result = match adapter.structured.map(|structured| structured.tool) {
        Some(Some(tool)) => format!("its tool `{tool}`, where the schema fits"),
        Some(None) => "its last message, held to the schema where that fits".to_owned(),
        None => "its last message".to_owned(),
    };
    let effort = match adapter.config.effort {
        Some(effort) if effort.in_model => format!("`{}`, or `model@effort`", effort.key),
        Some(effort) => format!("`{}`", effort.key),
        None => "—".to_owned(),
    };
    let models = match (adapter.models.listing, adapter.models.snapshot) {
        (Some(_), _) => "the CLI, else a snapshot",
        (None, Some(_)) => "a snapshot",
        (None, None) => "—",
    };
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let variable = match adapter.config.model_variables {
        ModelVariables::AboveTheFile(names) => format!("{}, above its settings file", quoted(names)),
        ModelVariables::BelowTheFile(names) => format!("{}, below its settings file", quoted(names)),
        ModelVariables::None => "—".to_owned(),
    };
    let output = match adapter.streams {
        Streams::Files => "followed files",
        Streams::Pipes => "pipes",
    };
    let sandbox = if adapter.has_sandbox { "yes" } else { "no" };
    let (state, session) = (adapter.state.as_str(), adapter.handle.name());
    format!(
        "| [{name}]({name}.md) | {package} | {version} | {state} | {result} | {effort} | {models} | {variable} | {output} | {sandbox} | `{session}` |\n"
    )
}

/// `UPDATE_DOCS=1` writes it.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test reads the page that it compares, and writes it where it is asked to"
)]
fn the_table_of_engines_tells_what_each_adapter_supports() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/engines/README.md");
    let rows: String = adapters().map(row).collect();
    let script =
        format!("| {} | built in | — | active | its standard output | — | — | — | pipes | no | — |\n", Engine::Script);
    let text = std::fs::read_to_string(page).unwrap();
    let (before, after) = text.split_once(BEGIN).unwrap_or_else(|| panic!("{page} has no table of engines"));
    let end = after.find("\n\n").map_or(after.len(), |end| end + 1);
    let updated = format!("{before}{BEGIN}{HEAD}{rows}{script}{}", &after[end..]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page, updated).unwrap();
    } else {
        assert_eq!(text, updated, "run with UPDATE_DOCS=1");
    }
}

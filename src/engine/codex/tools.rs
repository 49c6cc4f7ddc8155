//! Which of codex's tools a skill's `allowed-tools` leaves.

use serde_json::{Value, json};

use crate::engine::config::lay_over;
use crate::engine::tools::{AllowedTool, Beyond, ToolControl, Uses};

/// Its tools by the names of the open format. It has none that read texts: its model reads them by commands.
pub(crate) const TOOLS: ToolControl = ToolControl::named(
    &[
        ("Bash", &["exec_command"]),
        ("Edit", &["apply_patch"]),
        ("MultiEdit", &["apply_patch"]),
        ("NotebookEdit", &["apply_patch"]),
        ("Read", &["view_image"]),
        ("Task", &["spawn_agent"]),
        ("TodoWrite", &["update_plan"]),
        ("WebSearch", &["web_search"]),
        ("Write", &["apply_patch"]),
    ],
    Uses::Never,
)
.but(Beyond::EditsBesideTheShell);

/// The configuration that takes every other tool away: it is not offered, and a call of it is answered with an error. There is no such
/// switch for `apply_patch`.
pub(crate) fn switched_off(tools: &[AllowedTool]) -> Value {
    let left: Vec<&str> = tools.iter().flat_map(|tool| TOOLS.names_of(tool)).collect();
    // Goals, pictures and questions have no name in the open format.
    let mut config = json!({
        "features": { "goals": false, "image_generation": false },
        "tools": { "experimental_request_user_input": { "enabled": false } },
    });
    for (tool, switches) in [
        ("exec_command", json!({ "features": { "shell_tool": false, "unified_exec": false } })),
        ("view_image", json!({ "features": { "view_image": false } })),
        // Each of the three alone leaves the agents of some models.
        (
            "spawn_agent",
            json!({ "features": { "multi_agent": false, "multi_agent_v2": false }, "agents": { "enabled": false } }),
        ),
        ("update_plan", json!({ "tools": { "update_plan": { "enabled": false } } })),
        ("web_search", json!({ "web_search": "disabled" })),
    ] {
        if !left.contains(&tool) {
            lay_over(&mut config, switches);
        }
    }
    config
}

//! The versions of programs that engines and skills need, such as node.

use std::path::Path;
use std::time::Duration;

use crate::files::child;

/// How long a program may take to print its version.
const LIMIT: Duration = Duration::from_secs(10);

/// The first line a program on the PATH prints when asked for its version. Blocks.
pub(crate) fn tool_version(program: &str) -> Option<String> {
    let variable = |name: &'static str| std::env::var(name).ok().map(|value| (name, value));
    let env: Vec<(&str, String)> = ["PATH", "HOME"].into_iter().filter_map(variable).collect();
    let output = child::run(&[program.to_owned()], &["--version"], &env, Path::new("/"), LIMIT).ok()?;
    let first = output.stdout.lines().next().unwrap_or_default().trim().to_owned();
    output.status.success().then_some(first)
}

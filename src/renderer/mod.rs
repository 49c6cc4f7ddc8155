//! Templates of packages, rendered in a process of their own.
//!
//! A template can take any amount of memory, and make values so deep that dropping one overflows the stack; either aborts
//! its process. So it is rendered by this program, started again under another name, with limits on memory and time.
//! That process reads one request and writes one answer; it opens no file and starts nothing.

mod serve;
mod start;
mod wire;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::prompt::{self, TemplateFailed};

/// The path of the running program, valid even when its file has been replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Renders templates. Blocks.
pub trait Renderer: Send + Sync {
    /// The template filled with these values, or why it cannot be.
    fn render(&self, template: &str, values: &Value) -> Result<String, TemplateFailed>;
}

/// Renders each template in a process of its own.
#[derive(Debug, Clone)]
pub struct ChildRenderer {
    program: PathBuf,
}

impl ChildRenderer {
    /// With skill-runner's own program at this path.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// With the program that is running.
    pub(crate) fn this_program() -> Self {
        Self::new(THIS_PROGRAM.into())
    }
}

impl Renderer for ChildRenderer {
    fn render(&self, template: &str, values: &Value) -> Result<String, TemplateFailed> {
        start::render(&self.program, template, values)
    }
}

/// Renders in place: for templates that can be trusted, such as those of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct InPlace;

impl Renderer for InPlace {
    fn render(&self, template: &str, values: &Value) -> Result<String, TemplateFailed> {
        prompt::evaluate(template, values)
    }
}

/// To be called first in `main`: when this process was started as a renderer, it serves as one and exits.
pub fn serve_as_renderer_if_asked() {
    let name = std::env::args_os().next();
    if name.as_deref().and_then(|name| Path::new(name).file_name()) == Some(OsStr::new(wire::NAME)) {
        std::process::exit(serve::serve());
    }
}

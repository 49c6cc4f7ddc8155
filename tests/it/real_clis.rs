//! The engines as they are: the real CLIs, with a scripted model behind them.

mod contract;
mod documents;
mod gemini_home;
mod hostile;
mod keys;
mod large;
mod normalized;
mod own_tmp;
mod planted;
mod proxy;
mod refused;
mod sandbox;
mod service;
mod several;
mod terminal;
mod told;
mod wishes;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skill_runner::engine::{self, Adapter};

use crate::support::clis;
use crate::support::model_server::ModelServer;

/// A key that opens nothing.
const KEY: &str = "dummy-key-0123456789abcdef";

/// One test per engine of each kind.
macro_rules! on_every_cli {
    ($($kind:ident),* $(,)?) => { on_every_cli!(@ [codex gemini opencode claude qwen] [$($kind)*]); };
    (@ [$($engine:ident)*] $kinds:tt) => { $(on_every_cli!(@@ $engine $kinds);)* };
    (@@ $engine:ident [$($kind:ident)*]) => {
        mod $engine {$(
            #[test]
            fn $kind() {
                if !crate::support::clis::left_out(concat!(module_path!(), "::", stringify!($kind))) {
                    super::$kind(stringify!($engine));
                }
            }
        )*}
    };
}
use on_every_cli;

/// A real CLI and what makes it talk to the scripted model.
struct Cli {
    adapter: &'static Adapter,
    prefix: PathBuf,
    model: &'static str,
    /// What its operator wrote into its home: a file and its text.
    home: Option<(&'static str, String)>,
    /// The variables an operator would pass through.
    env: Vec<(String, String)>,
}

impl Cli {
    fn talking_to(server: &ModelServer, name: &str) -> Cli {
        Cli::asking(&server.address.to_string(), name)
    }

    /// A CLI whose model is at this host.
    fn asking(host: &str, name: &str) -> Cli {
        Cli::told_of(&format!("http://{host}"), name)
    }

    /// A CLI whose operator says that its model is there.
    fn told_of(root: &str, name: &str) -> Cli {
        let v1 = format!("{root}/v1");
        let (model, home, env): (_, _, Vec<(&str, &str)>) = match name {
            "codex" => {
                let config = codex_config(&v1);
                ("scripted-1", Some((".codex/config.toml", config)), vec![("SCRIPTED_KEY", KEY)])
            }
            "opencode" => {
                let config = opencode_config(&v1).to_string();
                let key = vec![("SCRIPTED_KEY", KEY)];
                ("scripted/scripted-1", Some(("config/opencode/opencode.json", config)), key)
            }
            "gemini" => (
                "gemini-2.5-flash",
                None,
                vec![("GEMINI_API_KEY", KEY), ("GOOGLE_GEMINI_BASE_URL", root), ("CODE_ASSIST_ENDPOINT", root)],
            ),
            "claude" => ("scripted-1", None, vec![("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", root)]),
            "qwen" => ("scripted-1", None, vec![("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &v1)]),
            other => panic!("no CLI of {other} can be had"),
        };
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Cli { adapter: engine::adapter_named(name).unwrap(), prefix: clis::prefix(), model, home, env }
    }
}

fn codex_config(base_url: &str) -> String {
    format!(
        "model_provider = \"scripted\"\n[model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{base_url}\"\n\
         wire_api = \"responses\"\nenv_key = \"SCRIPTED_KEY\"\nrequest_max_retries = 1\nstream_max_retries = 1\n"
    )
}

fn opencode_config(base_url: &str) -> Value {
    json!({
        "small_model": "scripted/scripted-1",
        "enabled_providers": ["scripted"],
        "provider": {"scripted": {
            "npm": "@ai-sdk/openai-compatible", "name": "scripted",
            "options": {"baseURL": base_url, "apiKey": "{env:SCRIPTED_KEY}"},
            "models": {"scripted-1": {
                "name": "scripted-1", "tool_call": true, "limit": {"context": 128_000, "output": 8192},
            }},
        }},
    })
}

/// Where programs are looked for: node is wherever this machine has it.
fn path() -> String {
    std::env::var("PATH").unwrap()
}

/// Command lines of the processes at work in a folder or below, or started with this text in their environment.
fn processes_in(folder: &Path, marker: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let at_work = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let marked = environment.split(|byte| *byte == 0).any(|variable| variable.ends_with(marker.as_bytes()));
        if at_work || marked {
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(std::ffi::OsStr::from_bytes(&words).to_string_lossy().replace('\0', " "));
        }
    }
    found
}

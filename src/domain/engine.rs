//! The engines there are: the one list of their names.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Makes the enum, `ALL` and `as_str` of one list, so that none of them can miss an engine.
macro_rules! engines {
    ($($variant:ident $name:literal),+ $(,)?) => {
        /// What does the work of a run: an agent CLI, or the skill's own script.
        ///
        /// Recorded events name their engine as plain text: a log may be of a version that knew other engines.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each engine is described in its folder, src/engine/<name>")]
        pub enum Engine {
            $(#[serde(rename = $name)] $variant),+
        }

        impl Engine {
            /// Every engine; the agent CLIs in the order in which they are tried, the script engine last.
            pub const ALL: &[Engine] = &[$(Engine::$variant),+];

            /// The name in requests, settings, events and paths.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

engines! {
    Codex "codex",
    Gemini "gemini",
    Opencode "opencode",
    Iflow "iflow",
    Claude "claude",
    Qwen "qwen",
    Script "script",
}

impl Engine {
    /// The agent CLIs: every engine but the script engine, in the order in which they are tried.
    pub const AGENTS: &[Engine] = match Self::ALL {
        [agents @ .., Self::Script] => agents,
        _ => panic!("the script engine stands last in the list"),
    };

    /// The names of these engines, for a message.
    pub(crate) fn names(engines: &[Engine]) -> String {
        engines.iter().map(|engine| engine.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// By name, so that maps list engines alphabetically.
impl Ord for Engine {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Engine {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A name that no engine has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no engine is called {name:?}; there are {}", Engine::names(Engine::ALL))]
pub struct UnknownEngine {
    pub(crate) name: String,
}

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let found = Self::ALL.iter().copied().find(|engine| engine.as_str() == name);
        found.ok_or_else(|| UnknownEngine { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_engine_is_written_and_read_by_its_name() {
        for engine in Engine::ALL {
            assert_eq!(engine.as_str().parse(), Ok(*engine));
            assert_eq!(serde_json::to_value(engine).unwrap(), json!(engine.as_str()));
            assert_eq!(serde_json::from_value::<Engine>(json!(engine.as_str())).unwrap(), *engine);
        }
        let unknown = "Codex".parse::<Engine>().unwrap_err().to_string();
        assert!(unknown.starts_with("no engine is called \"Codex\"; there are codex, "), "{unknown}");
    }
}

//! A request for a run, as a client makes it.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::bounded::object::Object;
use crate::bounded::whole::{self, Whole};
use crate::domain::engine::Engine;
use crate::domain::ids::RunId;
use crate::domain::request::{Caller, ExecutionMode, Retry};

/// Body of `POST /v1/jobs` and, without the skill's id, of `POST /v1/temp-skill-runs`. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CreateRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill_id: Option<String>,
    /// Which engine; left out: the skill's first that is ready.
    pub engine: Option<String>,
    pub input: Option<Map<String, Value>>,
    pub parameter: Option<Map<String, Value>>,
    pub model: Option<String>,
    /// How to run it.
    pub runtime_options: OptionsRequest,
    /// `<engine>_config`: configuration for an engine, by engine.
    #[serde(flatten, serialize_with = "config_fields")]
    pub engine_configs: BTreeMap<Engine, Map<String, Value>>,
    /// Whether to wait for an upload; left out: when a file is required.
    pub await_upload: Option<bool>,
    /// What to find the run by, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether it goes before or behind others in the queue; left out: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// What to keep with the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Who the run is for, as its script is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Caller>,
    /// Whether the client named the engine, and not the service for it.
    #[serde(skip)]
    pub(crate) asked_engine: bool,
    /// The name of the token that the request came with, if one did.
    #[serde(skip)]
    pub(crate) requested_by: Option<String>,
    /// The trace that the request belongs to.
    #[serde(skip)]
    pub(crate) traceparent: Option<Box<str>>,
    /// The earlier run whose uploaded files it gets: of two requests with one body, those for other files ask for something else.
    #[serde(skip)]
    pub(crate) files_of: Option<RunId>,
}

/// The options a client gave; what is left out has a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is documented where its value in force is: domain::request::RuntimeOptions"
)]
pub struct OptionsRequest {
    #[serde(default)]
    pub(crate) execution_mode: Option<ExecutionMode>,
    #[serde(default)]
    pub no_cache: Option<bool>,
    #[serde(default)]
    pub debug: Option<bool>,
    #[serde(default)]
    pub debug_keep_temp: Option<bool>,
    #[serde(default)]
    pub verbose: Option<bool>,
    #[serde(default)]
    pub interactive_auto_reply: Option<bool>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub interactive_reply_timeout_sec: Option<u64>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub hard_timeout_seconds: Option<u64>,
    #[serde(default, deserialize_with = "whole::optional")]
    pub stall_timeout_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "retry")]
    pub retry: Option<Retry>,
}

/// As a client writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetryRequest {
    #[serde(deserialize_with = "whole::number")]
    times: u32,
    #[serde(default, deserialize_with = "whole::optional")]
    backoff_seconds: Option<u64>,
}

fn retry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Retry>, D::Error> {
    let asked: Option<Object<RetryRequest>> = Option::deserialize(deserializer)?;
    Ok(asked.map(|Object(asked)| Retry::new(asked.times, asked.backoff_seconds)))
}

impl CreateRequest {
    /// The configuration for the engine of this name.
    pub fn engine_config(&self, engine: &str) -> Option<&Map<String, Value>> {
        engine.parse().ok().and_then(|engine: Engine| self.engine_configs.get(&engine))
    }
}

/// What the field of an engine's configuration ends with.
const CONFIG_SUFFIX: &str = "_config";

fn config_fields<S: Serializer>(
    configs: &BTreeMap<Engine, Map<String, Value>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(configs.iter().map(|(engine, config)| (format!("{engine}{CONFIG_SUFFIX}"), config)))
}

/// A field of a request. An unknown one is an error while the key is read, so that the error names its place.
enum Field {
    SkillId,
    Engine,
    Input,
    Parameter,
    Model,
    RuntimeOptions,
    AwaitUpload,
    Labels,
    Metadata,
    Context,
    Priority,
    Config(Engine),
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let agent = |engine: &Engine| Engine::AGENTS.contains(engine);
        match name.as_str() {
            "skill_id" => Ok(Self::SkillId),
            "engine" => Ok(Self::Engine),
            "input" => Ok(Self::Input),
            "parameter" => Ok(Self::Parameter),
            "model" => Ok(Self::Model),
            "runtime_options" => Ok(Self::RuntimeOptions),
            "await_upload" => Ok(Self::AwaitUpload),
            "labels" => Ok(Self::Labels),
            "metadata" => Ok(Self::Metadata),
            "context" => Ok(Self::Context),
            "priority" => Ok(Self::Priority),
            other => {
                let engine = other.strip_suffix(CONFIG_SUFFIX).and_then(|engine| engine.parse().ok()).filter(agent);
                engine.map(Self::Config).ok_or_else(|| {
                    let configs = Engine::AGENTS.iter().map(|engine| format!(", `{engine}{CONFIG_SUFFIX}`"));
                    D::Error::custom(format!(
                        "unknown field `{other}`, expected one of `skill_id`, `engine`, `input`, `parameter`, `model`, \
                         `runtime_options`, `await_upload`, `labels`, `metadata`, `context`, `priority`{}",
                        configs.collect::<String>()
                    ))
                })
            }
        }
    }
}

impl<'de> Deserialize<'de> for CreateRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = CreateRequest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the fields of a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CreateRequest, A::Error> {
        let (mut skill_id, mut engine, mut input, mut parameter) = (None, None, None, None);
        let (mut model, mut await_upload, mut labels, mut metadata) = (None, None, None, None);
        let mut priority: Option<Option<Whole<i8>>> = None;
        let mut runtime_options: Option<Object<OptionsRequest>> = None;
        let mut context: Option<Option<Object<Caller>>> = None;
        let mut configs = BTreeMap::new();
        while let Some(field) = map.next_key()? {
            match field {
                Field::SkillId => once(&mut skill_id, "skill_id", &mut map)?,
                Field::Engine => once(&mut engine, "engine", &mut map)?,
                Field::Input => once(&mut input, "input", &mut map)?,
                Field::Parameter => once(&mut parameter, "parameter", &mut map)?,
                Field::Model => once(&mut model, "model", &mut map)?,
                Field::RuntimeOptions => once(&mut runtime_options, "runtime_options", &mut map)?,
                Field::AwaitUpload => once(&mut await_upload, "await_upload", &mut map)?,
                Field::Labels => once(&mut labels, "labels", &mut map)?,
                Field::Metadata => once(&mut metadata, "metadata", &mut map)?,
                Field::Context => once(&mut context, "context", &mut map)?,
                Field::Priority => once(&mut priority, "priority", &mut map)?,
                Field::Config(engine) => {
                    let mut config: Option<Option<Map<String, Value>>> = configs.remove(&engine);
                    once(&mut config, &format!("{engine}{CONFIG_SUFFIX}"), &mut map)?;
                    configs.extend(config.map(|config| (engine, config)));
                }
            }
        }
        let engine: Option<String> = engine.flatten();
        Ok(CreateRequest {
            skill_id: skill_id.flatten(),
            asked_engine: engine.is_some(),
            requested_by: None,
            traceparent: None,
            files_of: None,
            engine,
            input: input.flatten(),
            parameter: parameter.flatten(),
            model: model.flatten(),
            runtime_options: runtime_options.map(|Object(options)| options).unwrap_or_default(),
            engine_configs: configs.into_iter().filter_map(|(engine, config)| Some((engine, config?))).collect(),
            await_upload: await_upload.flatten(),
            labels: labels.flatten(),
            metadata: metadata.flatten(),
            context: context.flatten().map(|Object(context)| context),
            priority: priority.flatten().map(|Whole(priority)| priority),
        })
    }
}

/// Reads the value of a field, which may be given only once.
fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    value: &mut Option<T>,
    name: &str,
    map: &mut A,
) -> Result<(), A::Error> {
    if value.is_some() {
        return Err(A::Error::custom(format!("duplicate field `{name}`")));
    }
    *value = Some(map.next_value()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<CreateRequest, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_is_written_as_it_was_read_with_a_field_for_each_engines_configuration() {
        let text = r#"{"skill_id":"a","engine":"codex","input":{"x":1},"parameter":null,"model":"m",
            "runtime_options":{"no_cache":true},"codex_config":{"a":1},"qwen_config":null,"await_upload":false}"#;
        let request = read(text).unwrap();
        assert_eq!(request.engine_config("codex"), json!({"a": 1}).as_object());
        assert_eq!((request.engine_config("qwen"), request.engine_config("script")), (None, None));
        let written = serde_json::to_value(&request).unwrap();
        assert_eq!(written["codex_config"], json!({"a": 1}));
        assert_eq!(serde_json::from_value::<CreateRequest>(written).unwrap(), request);
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused() {
        for unknown in ["nope", "vim_config", "script_config", "codex_configs"] {
            let refused = read(&format!("{{\"{unknown}\": {{}}}}")).unwrap_err();
            assert!(
                refused.starts_with(&format!("unknown field `{unknown}`, expected one of `skill_id`")),
                "{refused}"
            );
        }
        for repeated in ["model", "codex_config"] {
            let refused = read(&format!("{{\"{repeated}\": null, \"{repeated}\": null}}")).unwrap_err();
            assert!(refused.starts_with(&format!("duplicate field `{repeated}`")), "{refused}");
        }
        assert!(read("3").unwrap_err().contains("expected an object with the fields of a request"));
    }
}

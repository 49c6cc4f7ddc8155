//! The flags of `run`.

use crate::cli::run::key_value::KeyValue;

/// Runs one skill and shows its result
///
/// Uses the running service of the data directory where there is one, else runs the skill itself. Ctrl-C cancels
/// the run; a second Ctrl-C ends at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A value is read as JSON where it is JSON, else as text: n=3 is a number, n='\"3\"' and n=three are texts.

Examples:
  skill-runner run demo-echo --input text='to be or not to be'
  skill-runner run ./skills/demo-prime-number --file input_file=./numbers.txt --param divisor=3 --json
  skill-runner run demo-interview --interactive")]
pub(crate) struct Args {
    /// The id of an installed skill, or the path of a skill's folder (with a `/`, such as ./my-skill)
    pub(crate) skill: String,
    /// The engine [default: the skill's first that is ready]
    #[arg(long)]
    pub(crate) engine: Option<String>,
    /// The engine's model
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// An input
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) input: Vec<KeyValue>,
    /// A file for an input
    #[arg(long, value_name = "KEY=PATH")]
    pub(crate) file: Vec<KeyValue>,
    /// A parameter
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) param: Vec<KeyValue>,
    /// Let the engine ask: its questions are shown, and answered line by line on standard input
    #[arg(long)]
    pub(crate) interactive: bool,
    /// Keep and bundle everything, and tell the skill so
    #[arg(long)]
    pub(crate) debug: bool,
    /// Neither take the result of an equal run nor keep this one for others
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Seconds an attempt may run [default: the skill's own limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// One JSON document on standard output, the job with its result; everything else on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// The service to use [default: the one of the data directory, where it runs]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

//! The flags of `run`.

use crate::cli::run::key_value::KeyValue;

/// Runs one skill and shows its result
///
/// The data of the result goes to standard output, everything else to standard error. Uses the running service of the
/// data directory if there is one, else runs the skill in this process. Ctrl-C cancels the run; a second Ctrl-C exits at
/// once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A value is parsed as JSON if possible, else it is text: n=3 is a number, n='\"3\"' and n=three are text.

Examples:
  skill-runner run demo-echo --input text='to be or not to be'
  skill-runner run demo-prime-number --file input_file=numbers.txt --param divisor=3
  skill-runner run ./pdf-tools --input prompt='How many pages has it?' --file files=report.pdf
  skill-runner run demo-interview --interactive")]
pub(crate) struct Args {
    /// Id of an installed skill, or path of a skill's folder (with a `/`, such as ./my-skill)
    pub(crate) skill: String,
    /// Engine to use [default: the first of the skill's engines that is ready]
    #[arg(long)]
    pub(crate) engine: Option<String>,
    /// Model for the engine to use
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Input value; repeat for each input
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) input: Vec<KeyValue>,
    /// File for an input; repeat for each file
    #[arg(long, value_name = "KEY=PATH")]
    pub(crate) file: Vec<KeyValue>,
    /// Parameter value; repeat for each parameter
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) param: Vec<KeyValue>,
    /// Label to find the run by; repeat for more
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) label: Vec<KeyValue>,
    /// JSON object to keep with the run
    #[arg(long, value_name = "JSON")]
    pub(crate) metadata: Option<String>,
    /// Let the engine ask questions, and answer them line by line on standard input
    #[arg(long)]
    pub(crate) interactive: bool,
    /// Debug mode: keep and bundle all files; the skill is told about it
    #[arg(long)]
    pub(crate) debug: bool,
    /// Neither reuse the result of an equal run nor keep this one for reuse
    #[arg(long)]
    pub(crate) no_cache: bool,
    /// Time limit of an attempt in seconds [default: the skill's own limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: Option<u64>,
    /// Show every event, one line each
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Print the job with its result as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// URL of the service to use [default: the running service of the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

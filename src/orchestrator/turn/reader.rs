//! The reader of a turn: a script's progress, or an agent CLI's dialect with its report.

use crate::domain::event::Event;
use crate::domain::fact::Stream;
use crate::engine::script::ScriptParser;
use crate::engine::{Adapter, LineParser, Reading, TurnParser};

/// Reads what an engine prints.
pub(crate) enum TurnReader {
    Script(ScriptParser),
    Cli(Box<TurnParser>, &'static Adapter),
}

impl TurnReader {
    /// Whether the engine said that its turn is over.
    pub(crate) fn ended(&self) -> bool {
        match self {
            TurnReader::Script(_) => false,
            TurnReader::Cli(parser, _) => parser.ended(),
        }
    }

    /// Whether the engine has said what it had to say: it is about to exit, unless it hangs.
    pub(crate) fn expects_exit(&self) -> bool {
        match self {
            TurnReader::Script(parser) => parser.answered(),
            TurnReader::Cli(parser, _) => parser.ended(),
        }
    }

    /// Whether the engine works in another session than it was told, or waits too long for its service: nothing it does now
    /// can count.
    pub(crate) fn is_of_no_use(&self) -> bool {
        match self {
            TurnReader::Script(_) => false,
            TurnReader::Cli(parser, _) => parser.report().lost_session.is_some() || parser.report().waits_too_long,
        }
    }

    /// Whether it is ended because it waits too long for its service.
    pub(crate) fn waits_too_long(&self) -> bool {
        match self {
            TurnReader::Script(_) => false,
            TurnReader::Cli(parser, _) => parser.report().waits_too_long,
        }
    }

    /// The engine will be stopped after so many seconds of silence: to wait longer for its service is in vain.
    pub(crate) fn has_seconds(&mut self, seconds: u64) {
        match self {
            TurnReader::Script(_) => {}
            TurnReader::Cli(parser, _) => parser.has_seconds(seconds),
        }
    }

    /// Both streams are read: the last events.
    pub(crate) fn finish(&mut self) -> Vec<Event> {
        match self {
            TurnReader::Script(_) => Vec::new(),
            TurnReader::Cli(parser, _) => parser.finish(),
        }
    }
}

impl LineParser for TurnReader {
    fn read(&mut self, stream: Stream, line: &str) -> Reading {
        match self {
            TurnReader::Script(parser) => parser.read(stream, line),
            TurnReader::Cli(parser, _) => parser.read(stream, line),
        }
    }

    fn passed_by(&mut self, stream: Stream) {
        match self {
            TurnReader::Script(parser) => parser.passed_by(stream),
            TurnReader::Cli(parser, _) => parser.passed_by(stream),
        }
    }

    fn reads_unfinished_lines(&self) -> bool {
        match self {
            TurnReader::Script(parser) => parser.reads_unfinished_lines(),
            TurnReader::Cli(parser, _) => parser.reads_unfinished_lines(),
        }
    }
}

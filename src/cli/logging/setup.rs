//! The program's own log: to standard error and, for commands that run skills, to the log file.

use std::sync::Mutex;
use std::{fmt, io};

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::fmt::{FormatFields, layer};
use tracing_subscriber::prelude::*;

use crate::cli::logging::log_file::LogFile;
use crate::cli::logging::stderr::Stderr;
use crate::cli::terminal::look::Look;
use crate::settings::{Log, LogLevel};

/// How fields are written to the file. A type of its own: layers that share one would add each field of a span twice.
struct FileFields(DefaultFields);

impl<'writer> FormatFields<'writer> for FileFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        self.0.format_fields(writer, fields)
    }
}

fn filter(least: LogLevel) -> LevelFilter {
    LevelFilter::from_level(level(least))
}

fn level(least: LogLevel) -> Level {
    match least {
        LogLevel::Trace => Level::TRACE,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Info => Level::INFO,
        LogLevel::Warn => Level::WARN,
        LogLevel::Error => Level::ERROR,
    }
}

/// Log to standard error alone.
pub(crate) fn to_terminal(level: LogLevel) {
    let stderr = layer().with_writer(io::stderr).with_ansi(Look::of(&io::stderr()).colour).with_filter(filter(level));
    // Only a second call could fail.
    let _ = tracing_subscriber::registry().with(stderr).try_init();
}

/// Log to the file, and to standard error from another level on.
pub(crate) fn to_file(log: &Log, terminal_level: LogLevel) -> io::Result<()> {
    let file = Mutex::new(LogFile::open(&log.file, log.max_bytes, log.backup_count)?);
    let registry = tracing_subscriber::registry();
    // Only a second call could fail.
    if !Look::of(&io::stderr()).colour {
        // The same text for both, so it is made once.
        let both = Stderr::default().with_max_level(level(terminal_level)).and(file.with_max_level(level(log.level)));
        let most = filter(log.level).max(filter(terminal_level));
        let _ = registry.with(layer().with_writer(both).with_ansi(false).with_filter(most)).try_init();
        return Ok(());
    }
    let stderr = layer().with_writer(Stderr::default()).with_ansi(true).with_filter(filter(terminal_level));
    let file = layer()
        .fmt_fields(FileFields(DefaultFields::new()))
        .with_writer(file)
        .with_ansi(false)
        .with_filter(filter(log.level));
    let _ = registry.with(stderr).with(file).try_init();
    Ok(())
}

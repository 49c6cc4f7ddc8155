//! The program's own log: to standard error and, for commands that run skills, to the log file.

use std::sync::Mutex;
use std::{fmt, io};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::{FormatFields, layer};
use tracing_subscriber::prelude::*;

use crate::cli::logging::log_file::LogFile;
use crate::cli::terminal::look::Look;
use crate::settings::{Log, LogLevel};

/// How fields are written to the file. A type of its own: layers that share one would add each field of a span twice.
struct FileFields(DefaultFields);

impl<'writer> FormatFields<'writer> for FileFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        self.0.format_fields(writer, fields)
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
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
    let file = LogFile::open(&log.file, log.max_bytes, log.backup_count)?;
    let stderr =
        layer().with_writer(io::stderr).with_ansi(Look::of(&io::stderr()).colour).with_filter(filter(terminal_level));
    let file = layer()
        .fmt_fields(FileFields(DefaultFields::new()))
        .with_writer(Mutex::new(file))
        .with_ansi(false)
        .with_filter(filter(log.level));
    // Only a second call could fail.
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
    Ok(())
}

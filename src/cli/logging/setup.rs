//! The program's own log: to standard error and, for commands that run skills, to the log file.

use std::sync::Mutex;
use std::{fmt, io};

use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::fmt::{FormatFields, layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

use crate::cli::logging::access_file::{AccessFile, AccessWritten};
use crate::cli::logging::log_file::LogFile;
use crate::cli::logging::stderr::Stderr;
use crate::cli::terminal::look::Look;
use crate::http::ACCESS_TARGET;
use crate::settings::{Log, LogFormat, LogLevel};

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

/// Log to the file, and to standard error from another level on. Requests have a file of their own; whoever answers some keeps what is
/// returned until the last one.
pub(crate) fn to_file(log: &Log, terminal_level: LogLevel) -> io::Result<AccessWritten> {
    let file = Mutex::new(LogFile::open(&log.file, log.max_bytes, log.backup_count)?);
    let (access, written) = access_layer(log)?;
    let registry = tracing_subscriber::registry().with(access);
    let usual = || filter_fn(|line| line.target() != ACCESS_TARGET);
    let most = filter(log.level).max(filter(terminal_level));
    // Only a second call could fail, so what `try_init` says is of no use.
    if log.format == LogFormat::Json {
        let both = Stderr::default().with_max_level(level(terminal_level)).and(file.with_max_level(level(log.level)));
        let lines = layer().json().flatten_event(true).with_current_span(false).with_writer(both);
        let _ = registry.with(lines.with_filter(usual().and(most))).try_init();
        return Ok(written);
    }
    if !Look::of(&io::stderr()).colour {
        // The same text for both, so it is made once.
        let both = Stderr::default().with_max_level(level(terminal_level)).and(file.with_max_level(level(log.level)));
        let _ = registry.with(layer().with_writer(both).with_ansi(false).with_filter(usual().and(most))).try_init();
        return Ok(written);
    }
    let stderr =
        layer().with_writer(Stderr::default()).with_ansi(true).with_filter(usual().and(filter(terminal_level)));
    let file = layer()
        .fmt_fields(FileFields(DefaultFields::new()))
        .with_writer(file)
        .with_ansi(false)
        .with_filter(usual().and(filter(log.level)));
    let _ = registry.with(stderr).with(file).try_init();
    Ok(written)
}

type AccessLayer<S> = Option<Box<dyn tracing_subscriber::Layer<S> + Send + Sync>>;

/// Writes each request to its own file, if that is asked for.
fn access_layer<S>(log: &Log) -> io::Result<(AccessLayer<S>, AccessWritten)>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let Some(path) = &log.access else { return Ok((None, AccessWritten::nothing())) };
    let (file, written) = AccessFile::new(LogFile::open(path, log.max_bytes, log.backup_count)?)?;
    let requests = filter_fn(|line| line.target() == ACCESS_TARGET);
    let lines = layer().with_ansi(false).with_target(false).with_level(false).with_writer(file);
    let layer = match log.format {
        LogFormat::Text => lines.with_filter(requests).boxed(),
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            lines.with_filter(requests).boxed()
        }
    };
    Ok((Some(layer), written))
}

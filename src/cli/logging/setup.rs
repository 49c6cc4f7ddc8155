//! The program's own log: to standard error and, for commands that run skills, to the log file.

use std::io;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::prelude::*;

use crate::cli::logging::log_file::LogFile;
use crate::cli::terminal::look::Look;
use crate::settings::{Log, LogLevel};

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
    let file = layer().with_writer(Mutex::new(file)).with_ansi(false).with_filter(filter(log.level));
    // Only a second call could fail.
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
    Ok(())
}

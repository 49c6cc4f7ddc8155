//! The access log: written by a thread of its own, because a write to a file can wait for the disk, and no request waits for that.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tracing_subscriber::fmt::MakeWriter;

use crate::cli::logging::log_file::LogFile;
use crate::files;

/// Lines on their way to the file. Whoever has one more waits.
const LINES_MAX: usize = 4096;

enum Order {
    Write(Box<[u8]>),
    /// Answer when everything before is written.
    Answer(SyncSender<()>),
}

/// Takes lines for the file.
#[derive(Debug)]
pub(crate) struct AccessFile {
    orders: SyncSender<Order>,
}

/// Waits, when it is dropped, until all lines so far are written.
#[derive(Debug)]
#[must_use]
pub(crate) struct AccessWritten {
    orders: Option<SyncSender<Order>>,
}

impl AccessFile {
    pub(crate) fn new(file: LogFile) -> io::Result<(AccessFile, AccessWritten)> {
        let (orders, taken) = sync_channel(LINES_MAX);
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        thread.spawn(move || write(file, taken)).map_err(files::not_started)?;
        Ok((AccessFile { orders: orders.clone() }, AccessWritten { orders: Some(orders) }))
    }
}

impl AccessWritten {
    /// Where there is no access log.
    pub(crate) fn nothing() -> AccessWritten {
        AccessWritten { orders: None }
    }
}

fn write(mut file: LogFile, taken: Receiver<Order>) {
    for order in taken {
        match order {
            // A line that the disk has no room for is lost; the next one may find room.
            Order::Write(line) => _ = file.write_all(&line),
            // Nobody is left to be told.
            Order::Answer(to) => _ = to.send(()),
        }
    }
}

impl Drop for AccessWritten {
    fn drop(&mut self) {
        let (answer, written) = sync_channel(1);
        if self.orders.take().is_some_and(|orders| orders.send(Order::Answer(answer)).is_ok()) {
            // Fails if the thread is gone, and then there is nothing to wait for.
            let _ = written.recv();
        }
    }
}

impl<'a> MakeWriter<'a> for AccessFile {
    type Writer = &'a AccessFile;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Each call takes one line.
impl Write for &AccessFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let order = Order::Write(line.into());
        self.orders.send(order).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_line_is_in_the_file_when_it_is_waited_for_however_many_there_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let (file, written) = AccessFile::new(LogFile::open(&path, u64::MAX, 0).unwrap()).unwrap();
        let lines: Vec<String> = (0..3 * LINES_MAX).map(|number| format!("{number}\n")).collect();
        for line in &lines {
            file.make_writer().write_all(line.as_bytes()).unwrap();
        }
        drop(written);
        assert_eq!(fs::read_to_string(&path).unwrap(), lines.concat());
    }

    #[test]
    fn a_line_does_not_wait_for_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let (read, write) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&write, rustix::fs::OFlags::empty()).unwrap();
        let (file, written) = AccessFile::new(LogFile::onto(write.into(), &path)).unwrap();
        // More than a pipe holds, which nobody reads meanwhile.
        let line = vec![b'x'; 1024];
        for _ in 0..200 {
            file.make_writer().write_all(&line).unwrap();
        }
        let reader = std::thread::spawn(move || io::read_to_string(read).unwrap().len());
        drop(written);
        drop(file);
        assert_eq!(reader.join().unwrap(), 200 * 1024);
    }
}

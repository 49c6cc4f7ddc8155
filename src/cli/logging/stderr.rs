//! Standard error of a service: written to as long as somebody reads it, and never waited for.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;

/// What a pipe that can be written to takes at once without a wait.
const PIECE: usize = 4096;
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Standard error, and how many entries it has not taken since it last took one. All of them are in the log file.
#[derive(Debug, Default)]
pub(crate) struct Stderr {
    left_out: AtomicU64,
}

/// Writes a line for whoever looks on, if there is room for it.
pub(crate) fn tell(line: &str) {
    put(&mut io::stderr().lock(), format!("{line}\n").as_bytes());
}

/// One entry at a time; nobody else in this process writes meanwhile.
pub(crate) struct Entry<'a, W> {
    to: W,
    left_out: &'a AtomicU64,
}

impl<'a> MakeWriter<'a> for Stderr {
    type Writer = Entry<'a, io::StderrLock<'static>>;

    fn make_writer(&'a self) -> Self::Writer {
        Entry { to: io::stderr().lock(), left_out: &self.left_out }
    }
}

impl<W: Write + AsFd> Write for Entry<'_, W> {
    /// Takes the entry in any case. If there is no room for it, it is counted; the count is told before the next that finds room.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let missing = self.left_out.load(Ordering::Relaxed);
        let note = match missing {
            0 => String::new(),
            1 => "1 line is left out here, because nobody read on for a while; the log file has it\n".to_owned(),
            many => {
                format!("{many} lines are left out here, because nobody read on for a while; the log file has them\n")
            }
        };
        let taken = put(&mut self.to, note.as_bytes()) && {
            self.left_out.fetch_sub(missing, Ordering::Relaxed);
            put(&mut self.to, entry)
        };
        if !taken {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the bytes piece by piece; false if there is no room. A closed standard error takes everything: nobody is told.
fn put(to: &mut (impl Write + AsFd), bytes: &[u8]) -> bool {
    bytes.chunks(PIECE).all(|piece| {
        let mut asked = [PollFd::new(to, PollFlags::OUT)];
        let room = poll(&mut asked, Some(&AT_ONCE)).is_ok_and(|ready| ready > 0);
        if room {
            let _ = to.write_all(piece);
        }
        room
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    #[test]
    fn what_a_pipe_has_no_room_for_is_counted_and_told_when_there_is_room_again() {
        let (mut read, write) = io::pipe().unwrap();
        let mut write = File::from(std::os::fd::OwnedFd::from(write));
        let left_out = AtomicU64::new(0);
        let mut say = |text: &str| Entry { to: &mut write, left_out: &left_out }.write_all(text.as_bytes()).unwrap();
        // 16 pages of a pipe are full after so many.
        for _ in 0..20 {
            say(&format!("{}\n", "x".repeat(PIECE - 1)));
        }
        let mut first = vec![0; 16 * PIECE];
        read.read_exact(&mut first).unwrap();
        say("on\n");
        drop(write);
        let mut rest = String::new();
        read.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "4 lines are left out here, because nobody read on for a while; the log file has them\non\n");
    }
}

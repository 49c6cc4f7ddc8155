//! A terminal of so many columns, and a program on it: what the program writes, and which lines have no room.

use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use rustix::termios::{Winsize, tcsetwinsize};
use unicode_width::UnicodeWidthStr;

use super::LONG;

/// A program at work on a terminal; ended when dropped.
pub struct Terminal {
    child: Child,
    written: Arc<Written>,
    reader: Option<JoinHandle<()>>,
}

/// What a program wrote so far.
#[derive(Default)]
struct Written {
    bytes: Mutex<Vec<u8>>,
    more: Condvar,
}

impl Terminal {
    /// Starts a program that has a terminal as its standard output and error.
    pub fn start(mut command: Command, columns: u16) -> Terminal {
        // SAFETY: plain calls on a descriptor that is checked and then owned.
        let (master, name) = unsafe {
            let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
            assert!(master >= 0, "{}", std::io::Error::last_os_error());
            let master = File::from_raw_fd(master);
            assert_eq!((libc::grantpt(master.as_raw_fd()), libc::unlockpt(master.as_raw_fd())), (0, 0));
            let mut name = [0; 64];
            assert_eq!(libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr(), name.len()), 0);
            (master, CStr::from_ptr(name.as_ptr()).to_str().unwrap().to_owned())
        };
        resize(&master, columns);
        let slave = File::options().read(true).write(true).open(name).unwrap();
        command.stdin(Stdio::null()).stdout(slave.try_clone().unwrap()).stderr(slave);
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        let child = command.spawn().unwrap();
        let written = Arc::new(Written::default());
        let (mut from, to) = (master, written.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // When the last writer has gone, reading ends or fails.
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                to.bytes.lock().unwrap().extend_from_slice(&buffer[..read]);
                to.more.notify_all();
            }
        });
        Terminal { child, written, reader: Some(reader) }
    }

    /// Waits until the program has written these words.
    pub fn until(&self, words: &str) {
        let missing = |bytes: &mut Vec<u8>| !String::from_utf8_lossy(bytes).contains(words);
        let (bytes, waited) =
            self.written.more.wait_timeout_while(self.written.bytes.lock().unwrap(), LONG, missing).unwrap();
        assert!(!waited.timed_out(), "no {words:?} in {}", String::from_utf8_lossy(&bytes));
    }

    /// Waits for the end of the program; its exit status, and all that it wrote.
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.reader.take().unwrap().join().unwrap();
        let written = std::mem::take(&mut *self.written.bytes.lock().unwrap());
        (code, String::from_utf8(written).unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(master: &File, columns: u16) {
    tcsetwinsize(master, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// The texts that a terminal is given to show, each from the begin of a line: also those that are written over.
fn shown(written: &str) -> Vec<String> {
    let colours = ["\x1b[2K", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"];
    let plain = colours.iter().fold(written.to_owned(), |text, colour| text.replace(colour, ""));
    assert!(!plain.contains('\x1b'), "{plain:?}");
    plain.split(['\n', '\r']).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Those that take more columns than there are and so go on in the next line. A word without a wide character that is longer than
/// a line, such as a path, is none of them: it is written whole, to be copied.
pub fn too_long(written: &str, columns: usize) -> Vec<String> {
    let one_word = |line: &str| !line.trim().contains(' ') && line.chars().count() == line.width();
    shown(written).into_iter().filter(|line| line.width() > columns && !one_word(line)).collect()
}

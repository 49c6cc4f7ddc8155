//! The messages between service and shim on the control socket.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The name under which the program is a shim.
pub(crate) const NAME: &str = "skill-run-shim";

/// What to start: the first message to a shim, sent together with the engine's three standard files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) cwd: PathBuf,
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Order {
    /// A length and then the words, each ended by a NUL byte, which none of them can contain.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let argc = OsString::from(self.argv.len().to_string());
        let head = [self.cwd.as_os_str(), &argc];
        let arguments = self.argv.iter().map(OsString::as_os_str);
        let variables = self.env.iter().flat_map(|(name, value)| [name.as_os_str(), value.as_os_str()]);
        let mut words = Vec::new();
        for word in head.into_iter().chain(arguments).chain(variables) {
            if word.as_bytes().contains(&0) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a NUL byte in an argument or variable"));
            }
            words.extend_from_slice(word.as_bytes());
            words.push(0);
        }
        let length = u32::try_from(words.len()).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
        Ok([&length.to_le_bytes()[..], &words].concat())
    }

    /// Reads the words of an order, without the length.
    pub(crate) fn decode(words: &[u8]) -> Option<Order> {
        let mut words =
            words.strip_suffix(b"\0")?.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned());
        let cwd = PathBuf::from(words.next()?);
        let argc: usize = String::from_utf8(words.next()?.into_vec()).ok()?.parse().ok()?;
        let argv: Vec<OsString> = words.by_ref().take(argc).collect();
        let mut env = Vec::new();
        while let Some(name) = words.next() {
            env.push((name, words.next()?));
        }
        (argv.len() == argc).then_some(Order { cwd, argv, env })
    }
}

/// What the service may ask of a shim after the order, one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Request {
    /// SIGINT to the engine.
    Interrupt = b'I',
    /// Kill every process of the run.
    Kill = b'K',
}

/// What a shim tells the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The engine runs, with this pid.
    Started(i32),
    /// The engine could not be started, for this system error.
    Refused(i32),
    /// The engine's wait status.
    EngineEnded(i32),
    /// No process is left; this many besides the engine had to be killed.
    Gone(i32),
}

impl Report {
    /// Length of a report on the wire.
    pub(crate) const LEN: usize = 5;

    pub(crate) fn encode(self) -> [u8; Report::LEN] {
        let (tag, value) = match self {
            Report::Started(pid) => (b'S', pid),
            Report::Refused(error) => (b'R', error),
            Report::EngineEnded(status) => (b'E', status),
            Report::Gone(killed) => (b'G', killed),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [tag, a, b, c, d]
    }

    /// Reads a report; `None` for bytes that are not one.
    pub(crate) fn decode([tag, a, b, c, d]: [u8; Report::LEN]) -> Option<Report> {
        let value = i32::from_le_bytes([a, b, c, d]);
        match tag {
            b'S' => Some(Report::Started(value)),
            b'R' => Some(Report::Refused(value)),
            b'E' => Some(Report::EngineEnded(value)),
            b'G' => Some(Report::Gone(value)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back_from_its_bytes() {
        for report in [Report::Started(4_194_304), Report::Refused(2), Report::EngineEnded(-1), Report::Gone(0)] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode(*b"?\0\0\0\0"), None);
    }

    #[test]
    fn an_order_reads_back_from_its_bytes_with_empty_words_and_any_encoding() {
        let odd = OsString::from_vec(vec![0xff, b'\n', b'=']);
        let full = Order {
            cwd: PathBuf::from("/a b"),
            argv: vec!["sh".into(), OsString::new(), odd.clone()],
            env: vec![("EMPTY".into(), OsString::new()), ("ODD".into(), odd)],
        };
        let bare = Order { argv: vec!["x".into(), OsString::new()], env: vec![], ..full.clone() };
        for order in [full, bare] {
            let bytes = order.encode().unwrap();
            let (length, words) = bytes.split_first_chunk().unwrap();
            assert_eq!(u32::from_le_bytes(*length) as usize, words.len());
            assert_eq!(Order::decode(words), Some(order));
        }
    }

    #[test]
    fn a_nul_byte_cannot_be_ordered() {
        let order = Order { cwd: "/".into(), argv: vec!["a\0b".into()], env: vec![] };
        assert_eq!(order.encode().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}

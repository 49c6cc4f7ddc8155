//! The messages between service and shim on the control socket.

use crate::text::{digits, number};

/// The name of the shim's processes.
pub const NAME: &str = "skill-run-shim";

/// The files that come with an order: the engine's standard input, output and error, and the gate. The engine's process
/// begins to run its program when a byte comes through the gate, and ends when the gate is closed before that.
pub const FILES: usize = 4;

/// What to start: the first message to a shim. A length in 4 bytes, and then the words below in this order, each ended
/// by a NUL byte, which none of them can contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order<'a> {
    /// The limit of real-time CPU that every process of the run inherits: a number that names the run.
    pub mark: u64,
    /// The soft and the hard limit of open files; both 0 leaves them as the shim has them.
    pub open_files: [u64; 2],
    /// The largest size of a file, in bytes; 0 leaves the limit as the shim has it.
    pub file_bytes: u64,
    /// The processor time of one process, in seconds; 0 leaves the limit as the shim has it.
    pub cpu_seconds: u64,
    /// The engine's working directory, one word.
    pub cwd: Words<'a>,
    /// Folders that only the run's processes see, read-only, at another place: source, target, source, target.
    pub binds: Words<'a>,
    /// The folder that only the run's processes see as `/tmp`; one word or none. In a sandbox it is one of those shown.
    pub tmp: Words<'a>,
    /// The folder of the control group in which the engine is born; one word or none.
    pub group: Words<'a>,
    /// Folders of control groups that the engine's process goes into by itself.
    pub joined: Words<'a>,
    /// What the run's processes are confined by; a list of words, see [`Sandbox`]; empty for none.
    pub sandbox: Sandbox<'a>,
    pub argv: Words<'a>,
    /// Each as `NAME=value`.
    pub env: Words<'a>,
}

/// What the processes of a run are confined by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sandbox<'a> {
    /// The namespaces that the run gets for itself, as the kernel's flags; 0 for no sandbox at all.
    pub namespaces: u64,
    /// The user and the group that a user namespace maps to themselves.
    pub ids: [u64; 2],
    /// Folders in whose place the run sees an empty one; those that are not there are passed over.
    pub hidden: Words<'a>,
    /// What the run sees nevertheless: access (`w` to write, `r` to read, `o` to read if it is there), source, target, and so on.
    /// What holds a later target comes first.
    pub shown: Words<'a>,
    /// Ports of the run's own loopback on which the shim listens for the service, in decimal digits.
    pub ports: Words<'a>,
    /// Programs that filter system calls: for each its length in instructions, 2 bytes, and then its instructions of 8 bytes.
    pub filters: &'a [u8],
}

impl Sandbox<'_> {
    pub const NONE: Sandbox<'static> =
        Sandbox { namespaces: 0, ids: [0; 2], hidden: Words(b""), shown: Words(b""), ports: Words(b""), filters: b"" };
}

/// Most ports of one order.
pub const PORTS_MAX: usize = 8;

/// A list of words, each ended by a NUL byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

/// A word cannot be ordered because it contains a NUL byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NulByte;

impl<'a> Words<'a> {
    /// The list with the bytes of several words, each ended by a NUL byte.
    pub fn new(bytes: &'a [u8]) -> Words<'a> {
        Words(bytes)
    }

    /// Adds a word to the bytes of a list.
    pub fn push(list: &mut impl for<'b> Extend<&'b u8>, word: &[u8]) -> Result<(), NulByte> {
        if word.contains(&0) {
            return Err(NulByte);
        }
        list.extend(word);
        list.extend(&[0]);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.0.iter().filter(|byte| **byte == 0).count()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn next_number(&mut self) -> Option<u64> {
        number(self.next()?.strip_suffix(b"\0")?)
    }

    /// The next words, as a list of their own.
    fn split_off(&mut self, count: u64) -> Option<Words<'a>> {
        let before = self.0;
        for _ in 0..count {
            self.next()?;
        }
        before.get(..before.len() - self.0.len()).map(Words)
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    /// The next word, with its NUL byte.
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)? + 1;
        let (word, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        Some(word)
    }
}

impl<'a> Order<'a> {
    /// The whole message.
    pub fn encode(&self, message: &mut impl for<'b> Extend<&'b u8>) {
        let Sandbox { namespaces, ids: [user, group], hidden, shown, ports, filters } = self.sandbox;
        let ([soft, hard], own) = (self.open_files, [namespaces, user, group, filters.len() as u64]);
        let limits = [self.mark, soft, hard, self.file_bytes, self.cpu_seconds];
        let counted = [self.binds, self.tmp, self.group, self.joined, hidden, shown, ports, self.argv];
        let numbers = limits.into_iter().chain(own).chain(counted.map(|list| list.len() as u64));
        let lists = [self.cwd.0].into_iter().chain(counted.map(|list| list.0)).chain([self.env.0, filters]);
        let ended: usize = numbers.clone().map(|number| digits(number, &mut [0; 20]).len() + 1).sum();
        let length = ended + lists.clone().map(<[u8]>::len).sum::<usize>();
        // No system takes arguments of 4 GB.
        message.extend(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        for number in numbers {
            message.extend(digits(number, &mut [0; 20]));
            message.extend(&[0]);
        }
        lists.for_each(|list| message.extend(list));
    }

    /// Reads an order without its length.
    pub fn decode(bytes: &'a [u8]) -> Option<Order<'a>> {
        let mut words = Words(bytes);
        let mut numbers = [0; 17];
        for number in &mut numbers {
            *number = words.next_number()?;
        }
        let [mark, soft, hard, file_bytes, cpu_seconds, namespaces, user, group_id, filters, counts @ ..] = numbers;
        let behind = words.0.len().checked_sub(usize::try_from(filters).ok()?)?;
        let (before, filters) = words.0.split_at_checked(behind)?;
        let mut words = Words(before);
        let cwd = words.split_off(1)?;
        let [mut binds, mut tmp, mut group, mut joined, mut hidden, mut shown, mut ports, mut argv] = [Words(b""); 8];
        let lists = [&mut binds, &mut tmp, &mut group, &mut joined, &mut hidden, &mut shown, &mut ports, &mut argv];
        for (list, count) in lists.into_iter().zip(counts) {
            *list = words.split_off(count)?;
        }
        let whole = words.is_empty() || before.last() == Some(&0);
        let sandbox = Sandbox { namespaces, ids: [user, group_id], hidden, shown, ports, filters };
        let (open_files, env) = ([soft, hard], words);
        let order =
            Order { mark, open_files, file_bytes, cpu_seconds, cwd, binds, tmp, group, joined, sandbox, argv, env };
        whole.then_some(order)
    }
}

/// The steps in which a sandbox is made, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum SandboxStep {
    Namespaces = 1,
    Ids,
    Loopback,
    Ports,
    FirstProcess,
    Show,
    Devices,
    ReadOnly,
    Hide,
    Place,
    Proc,
    Privileges,
    Filter,
}

impl SandboxStep {
    const ALL: [(SandboxStep, &'static str); 13] = [
        (SandboxStep::Namespaces, "make namespaces"),
        (SandboxStep::Ids, "map the user into a namespace"),
        (SandboxStep::Loopback, "start the loopback of a network namespace"),
        (SandboxStep::Ports, "listen in a network namespace"),
        (SandboxStep::FirstProcess, "start the first process of a namespace"),
        (SandboxStep::Show, "open what the run may see"),
        (SandboxStep::Devices, "make /dev"),
        (SandboxStep::ReadOnly, "make the file system read-only"),
        (SandboxStep::Hide, "hide a folder"),
        (SandboxStep::Place, "show the run its folder"),
        (SandboxStep::Proc, "mount /proc"),
        (SandboxStep::Privileges, "give up privileges"),
        (SandboxStep::Filter, "filter system calls"),
    ];

    /// Step and system error in one number.
    pub fn refused(self, error: i32) -> i32 {
        self as i32 * 1000 + error
    }

    /// What was tried, and the system error.
    pub fn read(refused: i32) -> (&'static str, i32) {
        let told = SandboxStep::ALL.iter().find(|(step, _)| *step as i32 == refused / 1000);
        (told.map_or("make a sandbox", |(_, told)| told), refused % 1000)
    }
}

/// What the service may ask of a shim after the order, one byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Request {
    /// SIGINT to the engine.
    Interrupt = b'I',
    /// Kill every process of the run.
    Kill = b'K',
}

/// Besides these the service may say for how long the run may go on unless it says so again: then every process of it is killed,
/// also while the service itself is stopped. One byte as well: this bit, and the seconds.
pub const LEASE: u8 = 0x80;

/// A lease of so many seconds, at most 127, as a byte.
pub fn lease(seconds: u64) -> u8 {
    LEASE | u8::try_from(seconds).unwrap_or(u8::MAX).min(!LEASE)
}

/// What a shim tells the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The engine's process is there, with this pid, and waits at the gate.
    Ready(i32),
    /// The engine cannot be started, for this system error.
    Refused(i32),
    /// A folder could not be bound, for this system error.
    BindRefused(i32),
    /// The sandbox could not be made: the step that failed, a thousand times, and the system error.
    SandboxRefused(i32),
    /// The engine's wait status.
    EngineEnded(i32),
    /// No process is left; this many besides the engine had to be killed.
    Gone(i32),
}

impl Report {
    /// Length of a report on the wire.
    pub const LEN: usize = 5;

    pub fn encode(self) -> [u8; Report::LEN] {
        let (tag, value) = match self {
            Report::Ready(pid) => (b'S', pid),
            Report::Refused(error) => (b'R', error),
            Report::BindRefused(error) => (b'B', error),
            Report::SandboxRefused(error) => (b'X', error),
            Report::EngineEnded(status) => (b'E', status),
            Report::Gone(killed) => (b'G', killed),
        };
        let [a, b, c, d] = value.to_le_bytes();
        [tag, a, b, c, d]
    }

    /// Reads a report; `None` for bytes that are not one.
    pub fn decode([tag, a, b, c, d]: [u8; Report::LEN]) -> Option<Report> {
        let value = i32::from_le_bytes([a, b, c, d]);
        match tag {
            b'S' => Some(Report::Ready(value)),
            b'R' => Some(Report::Refused(value)),
            b'B' => Some(Report::BindRefused(value)),
            b'X' => Some(Report::SandboxRefused(value)),
            b'E' => Some(Report::EngineEnded(value)),
            b'G' => Some(Report::Gone(value)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        words.iter().for_each(|word| Words::push(&mut bytes, word).unwrap());
        bytes
    }

    #[test]
    fn a_report_reads_back_from_its_bytes() {
        let (ready, refused, bind) = (Report::Ready(4_194_304), Report::Refused(2), Report::BindRefused(1));
        let sandbox = Report::SandboxRefused(SandboxStep::Proc.refused(1));
        for report in [ready, refused, bind, sandbox, Report::EngineEnded(-1), Report::Gone(0)] {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode(*b"?\0\0\0\0"), None);
        assert_eq!(SandboxStep::read(SandboxStep::Filter.refused(22)), ("filter system calls", 22));
    }

    #[test]
    fn an_order_reads_back_from_its_bytes_with_empty_words_and_any_encoding() {
        let (binds, argv) = (list(&[b"/from here", b"/to"]), list(&[b"sh", b"", b"\xff\n="]));
        let env = list(&[b"EMPTY=", b"ODD=\xff\n="]);
        let full = Order {
            mark: u64::MAX - 1,
            open_files: [1024, u64::MAX],
            file_bytes: 1 << 40,
            cpu_seconds: 60,
            cwd: Words::new(b"/a b\0"),
            binds: Words::new(&binds),
            tmp: Words::new(b"/own tmp\0"),
            group: Words::new(b"/groups/one\0"),
            joined: Words::new(b"/memory/one\0/pids/one\0"),
            sandbox: Sandbox {
                namespaces: 0x2_0000,
                ids: [1000, 100],
                hidden: Words::new(b"/home\0/root\0"),
                shown: Words::new(b"w\0/a\0/b\0"),
                ports: Words::new(b"3128\0"),
                filters: b"\x01\0\0\xff\0\0\0\0\0\0",
            },
            argv: Words::new(&argv),
            env: Words::new(&env),
        };
        let none = Words::new(b"");
        let bare = Order {
            mark: 0,
            open_files: [0; 2],
            binds: none,
            tmp: none,
            group: none,
            joined: none,
            sandbox: Sandbox::NONE,
            env: none,
            ..full
        };
        for order in [full, bare] {
            let mut message = Vec::new();
            order.encode(&mut message);
            let (length, words) = message.split_first_chunk().unwrap();
            assert_eq!(u32::from_le_bytes(*length) as usize, words.len());
            assert_eq!(Order::decode(words), Some(order));
        }
        let words: Vec<&[u8]> = full.argv.collect();
        assert_eq!(words, [&b"sh\0"[..], b"\0", b"\xff\n=\0"]);
    }

    #[test]
    fn what_is_cut_off_is_no_order() {
        let argv = list(&[b"sh", b"-c"]);
        let order = Order {
            mark: 7,
            open_files: [0; 2],
            file_bytes: 0,
            cpu_seconds: 0,
            cwd: Words::new(b"/\0"),
            binds: Words::new(b""),
            tmp: Words::new(b""),
            group: Words::new(b""),
            joined: Words::new(b""),
            sandbox: Sandbox::NONE,
            argv: Words::new(&argv),
            env: Words::new(b"A=b\0"),
        };
        let mut message = Vec::new();
        order.encode(&mut message);
        let words = &message[4..];
        let without_variables = words.len() - 4;
        for end in (0..words.len()).filter(|end| *end != without_variables) {
            assert_eq!(Order::decode(&words[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_nul_byte_cannot_be_ordered() {
        assert_eq!(Words::push(&mut Vec::new(), b"a\0b"), Err(NulByte));
    }
}

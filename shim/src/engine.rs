//! The engine's process: made ready, held at the gate, and then the engine itself.

use core::ptr::null;

use crate::first_process::FirstProcess;
use crate::limits;
use crate::program_file::{self, ProgramPath};
use crate::sandbox::{self, Ports, Refused};
use crate::sys::{self, Errno, Fd, Limit, Result, isolate};
use crate::text::{Path, digits};
use crate::wire::{FILES, Order, SandboxStep, Words};

/// A program file that was just written can be "busy": a process that was forked meanwhile has a copy of the open file
/// until its exec, which follows within milliseconds.
const BUSY_TIMES: u32 = 50;
const BUSY_PAUSE: u32 = 10;
const PATH_MAX: usize = 4096;

/// Why there will be no engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Engine(Errno),
    Bind(Errno),
    /// Step and error in one number.
    Sandbox(i32),
}

impl From<Refused> for Refusal {
    fn from(Refused(step, error): Refused) -> Self {
        Refusal::Sandbox(step.refused(error.0))
    }
}

/// An engine that waits at the gate.
pub(crate) struct Prepared {
    pub(crate) engine: i32,
    /// In a sandbox.
    pub(crate) first: Option<FirstProcess>,
    pub(crate) ports: Ports,
    /// The control groups that the engine may be in.
    pub(crate) groups: [Words<'static>; 2],
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        Refusal::Engine(error)
    }
}

/// Makes the engine's process, which waits at the gate, and in a sandbox the process that ends with it. The engine's files are
/// closed here, because its pipes could not end while the shim held them.
pub(crate) fn prepare(order: Order<'static>, files: [Fd; FILES]) -> core::result::Result<Prepared, Refusal> {
    let (mut argv, env) = (Pointers::of(order.argv)?, Pointers::of(order.env)?);
    // Where it cannot be opened, the engine is in the shim's group, which the service sees.
    let group = order.group.clone().next().and_then(|folder| sys::open(folder).ok());
    let confined = order.sandbox.namespaces != 0;
    let ports = if confined { sandbox::enter(order.sandbox)? } else { Ports::NONE };
    let first = match confined {
        true => Some(FirstProcess::start().map_err(|error| Refused(SandboxStep::FirstProcess, error))?),
        false => None,
    };
    let (answer, tell_answer) = sys::pipe()?;
    let Some(engine) = fork(group)? else {
        if let Some(first) = first {
            first.close();
        }
        match make_ready(order, files) {
            Ok(path) => {
                tell(tell_answer, Ok(()));
                wait_at(files);
                execute(&path, &mut argv, &env)
            }
            Err(refusal) => {
                tell(tell_answer, Err(refusal));
                sys::exit(127)
            }
        }
    };
    sys::close(tell_answer);
    group.into_iter().for_each(sys::close);
    files.into_iter().for_each(sys::close);
    let heard = hear(answer);
    sys::close(answer);
    if heard.is_err() {
        // Its control group can be removed only when it has left it.
        sys::wait_for(engine);
    }
    heard.map(|()| Prepared { engine, first, ports, groups: [order.group, order.joined] })
}

fn fork(group: Option<Fd>) -> Result<Option<i32>> {
    match group.map(sys::group::fork_into) {
        Some(Ok(forked)) => Ok(forked),
        Some(Err(_)) | None => sys::fork(),
    }
}

/// In the new process: everything that can fail, except the exec itself. Gives the file to execute.
fn make_ready(order: Order<'_>, [stdin, stdout, stderr, _]: [Fd; FILES]) -> core::result::Result<ProgramPath, Refusal> {
    sys::begin_session()?;
    sys::block_signals(0);
    // If a lower limit is in force already, the environment alone names the run.
    let _ = sys::limit(Limit::RealTime, [order.mark; 2]);
    join(order.joined);
    limits::apply(&order)?;
    let confined = order.sandbox.namespaces != 0;
    if confined {
        sandbox::change_mounts(order.sandbox)?;
    }
    bind(order.binds, order.tmp).map_err(Refusal::Bind)?;
    for (from, to) in [(stdin, Fd(0)), (stdout, Fd(1)), (stderr, Fd(2))] {
        sys::duplicate(from, to)?;
    }
    let (mut cwd, mut argv) = (order.cwd, order.argv);
    sys::change_folder(cwd.next().ok_or(Errno::INVAL)?)?;
    let program = program_file::find(argv.next().ok_or(Errno::INVAL)?, order.env)?;
    if confined {
        sandbox::drop_privileges(order.sandbox)?;
    }
    Ok(program)
}

/// Goes into control groups. Where that is refused, the process stays in the shim's, which the service sees.
fn join(groups: Words<'_>) {
    for folder in groups {
        let tasks = Path::<PATH_MAX>::of(&[folder.strip_suffix(b"\0").unwrap_or(folder), b"/tasks"]);
        // 0 is whoever writes it: a process that moves itself, and has one thread, need not wait for others.
        let _ = tasks.map(|file| isolate::write_file(file.ended(), b"0"));
    }
}

fn bind(mut binds: Words<'_>, mut tmp: Words<'_>) -> Result<()> {
    if binds.is_empty() && tmp.is_empty() {
        return Ok(());
    }
    sys::own_mounts()?;
    if let Some(folder) = tmp.next() {
        sys::bind(folder, b"/tmp\0")?;
    }
    while let (Some(source), Some(target)) = (binds.next(), binds.next()) {
        sys::bind_read_only(source, target)?;
    }
    Ok(())
}

/// Whether the process is ready, told in 8 bytes to the shim.
fn tell(answer: Fd, ready: core::result::Result<(), Refusal>) {
    let (kind, error) = match ready {
        Ok(()) => (0, 0),
        Err(Refusal::Engine(error)) => (1, error.0),
        Err(Refusal::Bind(error)) => (2, error.0),
        Err(Refusal::Sandbox(refused)) => (3, refused),
    };
    let [a, b, c, d] = i32::to_ne_bytes(error);
    // If the shim is gone, so will be this process.
    let _ = sys::write(answer, &[kind, a, b, c, d]);
}

fn hear(answer: Fd) -> core::result::Result<(), Refusal> {
    let mut told = [0; 5];
    let read = sys::read(answer, &mut told)?;
    let [kind, error @ ..] = told;
    let error = Errno(i32::from_ne_bytes(error));
    match (read, kind) {
        (5, 0) => Ok(()),
        (5, 2) => Err(Refusal::Bind(error)),
        (5, 3) => Err(Refusal::Sandbox(error.0)),
        (5, _) => Err(Refusal::Engine(error)),
        // It was killed.
        _ => Err(Refusal::Engine(Errno::IO)),
    }
}

/// Waits until the service opens the gate.
fn wait_at([.., gate]: [Fd; FILES]) {
    if sys::read(gate, &mut [0]) != Ok(1) {
        // Nobody will open it any more.
        sys::exit(127);
    }
}

/// A list of words as the kernel wants it: the address of each, and a null pointer at its end. One place is left free before
/// the first.
struct Pointers(&'static mut [*const u8]);

impl Pointers {
    fn of(mut words: Words<'_>) -> Result<Pointers> {
        let bytes = sys::memory((words.len() + 2) * size_of::<*const u8>())?;
        // SAFETY: zeroed memory, aligned to a page: null pointers.
        let (_, places, _) = unsafe { bytes.align_to_mut::<*const u8>() };
        for place in places.iter_mut().skip(1) {
            *place = words.next().map_or(null(), <[u8]>::as_ptr);
        }
        Ok(Pointers(places))
    }

    fn first(&self) -> *const *const u8 {
        self.0.get(1..).unwrap_or_default().as_ptr()
    }
}

fn execute(path: &ProgramPath, argv: &mut Pointers, env: &Pointers) -> ! {
    let mut refused = Errno::TXTBSY;
    for _ in 0..BUSY_TIMES {
        // SAFETY: the words of an order end with NUL, and each list with a null pointer.
        refused = unsafe { sys::execute(path.ended(), argv.first(), env.first()) };
        if refused != Errno::TXTBSY {
            break;
        }
        sys::sleep(BUSY_PAUSE);
    }
    if refused == Errno::NOEXEC {
        refused = execute_as_script(path, argv, env);
    }
    let mut space = [0; 20];
    let error = digits(u64::from(refused.0.unsigned_abs()), &mut space);
    let path = path.ended().strip_suffix(b"\0").unwrap_or_default();
    for words in [&b"skill-runner: cannot execute "[..], path, b": error ", error, b"\n"] {
        let _ = sys::write(Fd(2), words);
    }
    // As shells do.
    sys::exit(if refused == Errno::NOENT { 127 } else { 126 })
}

/// A text without a first line that names its interpreter is for the shell, as everywhere.
fn execute_as_script(path: &ProgramPath, argv: &mut Pointers, env: &Pointers) -> Errno {
    const SHELL: &[u8] = b"/bin/sh\0";
    for (place, word) in argv.0.iter_mut().zip([SHELL, path.ended()]) {
        *place = word.as_ptr();
    }
    // SAFETY: as above; the free place holds the shell's name now.
    unsafe { sys::execute(SHELL, argv.0.as_ptr(), env.first()) }
}

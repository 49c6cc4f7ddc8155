//! The sandbox of a run: namespaces of its own, a file system in which little can be written, and no privileges.
//!
//! The shim enters the namespaces itself, all but those of mounts; its children are then born in the run's pid namespace. So
//! the engine stays a child of the shim: its pid, its exit status and its signals are what they are without a sandbox.

use crate::sys::isolate::{self, Without};
use crate::sys::{self, Errno, Fd, network};
use crate::text::{Path, digits, number};
use crate::wire::{PORTS_MAX, Sandbox, SandboxStep, Words};

/// A step that failed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) SandboxStep, pub(crate) Errno);

pub(crate) type Result<T> = core::result::Result<T, Refused>;

fn at<T>(step: SandboxStep) -> impl Fn(Errno) -> core::result::Result<T, Refused> {
    move |error| Err(Refused(step, error))
}

/// That of the engine's process alone: it is born in a control group that could not be seen from a namespace of the shim's.
const CLONE_NEWCGROUP: u64 = 0x0200_0000;
const CLONE_NEWUSER: u64 = 0x1000_0000;
const CLONE_NEWNET: u64 = 0x4000_0000;
const PATH_MAX: usize = 4096;
/// The memory of a run's files in `/dev/shm`, which nobody sees who looks at its processes.
const SHARED_MEMORY: &[u8] = b"mode=1777,size=256m,nr_inodes=64k\0";
/// Pseudo terminals of a run: all runs share those of the machine, usually 3072 besides its own.
const TERMINALS: &[u8] = b"newinstance,ptmxmode=0666,mode=620,max=256\0";
/// The most that a run may have of System V, which stays in memory although no process shows it: pages of shared memory,
/// semaphores (of one set, of all, of one call, sets), and queues of messages.
const SYSTEM_V: [(&[u8], &[u8]); 3] = [
    (b"/proc/sys/kernel/shmall\0", b"65536"),
    (b"/proc/sys/kernel/sem\0", b"32000 32000 500 1024"),
    (b"/proc/sys/kernel/msgmni\0", b"1024"),
];

/// The ports on which the shim listens for the service.
pub(crate) struct Ports {
    files: [Fd; PORTS_MAX],
    count: usize,
}

impl Ports {
    pub(crate) const NONE: Ports = Ports { files: [Fd(-1); PORTS_MAX], count: 0 };

    pub(crate) fn files(&self) -> &[Fd] {
        self.files.get(..self.count).unwrap_or_default()
    }
}

/// In the shim: enters the namespaces, and listens in that of the network.
pub(crate) fn enter(sandbox: Sandbox<'_>) -> Result<Ports> {
    isolate::enter_namespaces(sandbox.namespaces & !CLONE_NEWCGROUP).or_else(at(SandboxStep::Namespaces))?;
    if sandbox.namespaces & CLONE_NEWUSER != 0 {
        map_ids(sandbox.ids).or_else(at(SandboxStep::Ids))?;
    }
    for (setting, most) in SYSTEM_V {
        // They are the new namespace's own. Where they cannot be written, only a control group counts what they bound.
        let _ = isolate::write_file(setting, most);
    }
    let mut ports = Ports::NONE;
    if sandbox.namespaces & CLONE_NEWNET != 0 {
        network::start_loopback().or_else(at(SandboxStep::Loopback))?;
        for (place, port) in ports.files.iter_mut().zip(sandbox.ports) {
            *place = listen(port).or_else(at(SandboxStep::Ports))?;
            ports.count += 1;
        }
    }
    Ok(ports)
}

fn listen(port: &[u8]) -> sys::Result<Fd> {
    let port = port.strip_suffix(b"\0").and_then(number).and_then(|port| u16::try_from(port).ok());
    network::listen(port.ok_or(Errno::INVAL)?)
}

/// The user and group of this process are the same inside, and there are no others.
fn map_ids([user, group]: [u64; 2]) -> sys::Result<()> {
    isolate::write_file(b"/proc/self/setgroups\0", b"deny")?;
    for (file, id) in [(&b"/proc/self/uid_map\0"[..], user), (b"/proc/self/gid_map\0", group)] {
        let mut space = [0; 20];
        let id = digits(id, &mut space);
        let line = Path::<64>::of(&[id, b" ", id, b" 1"]).ok_or(Errno::INVAL)?;
        isolate::write_file(file, line.ended().strip_suffix(b"\0").unwrap_or_default())?;
    }
    Ok(())
}

/// In the engine's process: mounts of its own, in which only what is shown can be written, and what is hidden is not there.
pub(crate) fn change_mounts(sandbox: Sandbox<'_>) -> Result<()> {
    isolate::enter_namespaces(sandbox.namespaces & CLONE_NEWCGROUP).or_else(at(SandboxStep::Namespaces))?;
    isolate::private_mounts().or_else(at(SandboxStep::Namespaces))?;
    let trees = Trees::take(sandbox.shown).or_else(at(SandboxStep::Show))?;
    let devices = take_devices().or_else(at(SandboxStep::Devices))?;
    let restricted = Without::WRITING.and(Without::PRIVILEGES);
    isolate::restrict_mounts(b"/\0", restricted).or_else(at(SandboxStep::ReadOnly))?;
    for folder in sandbox.hidden {
        hide(folder).or_else(at(SandboxStep::Hide))?;
    }
    trees.place(sandbox.shown).or_else(at(SandboxStep::Place))?;
    for folder in sandbox.hidden {
        // What is shown there has its place by now.
        not_there_is_fine(isolate::restrict_mount(folder, Without::WRITING)).or_else(at(SandboxStep::Hide))?;
    }
    place_devices(devices).or_else(at(SandboxStep::Devices))?;
    // Not even its own entries: root may write to some that concern the whole machine.
    isolate::mount_new(b"proc\0", b"/proc\0", b"\0", false).or_else(at(SandboxStep::Proc))?;
    isolate::restrict_mount(b"/proc\0", Without::WRITING).or_else(at(SandboxStep::Proc))
}

/// In the engine's process, at last: no privileges, and no system calls that no skill needs.
pub(crate) fn drop_privileges(sandbox: Sandbox<'_>) -> Result<()> {
    isolate::drop_privileges().or_else(at(SandboxStep::Privileges))?;
    let mut filters = sandbox.filters;
    while let Some((length, rest)) = filters.split_first_chunk() {
        let length = usize::from(u16::from_ne_bytes(*length)) * 8;
        let (filter, rest) = rest.split_at_checked(length).ok_or(Errno::INVAL).or_else(at(SandboxStep::Filter))?;
        isolate::filter_calls(filter).or_else(at(SandboxStep::Filter))?;
        filters = rest;
    }
    Ok(())
}

fn hide(folder: &[u8]) -> sys::Result<()> {
    not_there_is_fine(isolate::mount_new(b"tmpfs\0", folder, b"mode=755\0", false))
}

fn not_there_is_fine(done: sys::Result<()>) -> sys::Result<()> {
    match done {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        // A folder inside a hidden one was never mounted on.
        Err(Errno::INVAL) => Ok(()),
        done => done,
    }
}

/// Copies of what is shown, in the order of the list; those that are not there have a negative number.
struct Trees(&'static mut [u8]);

impl Trees {
    fn take(mut shown: Words<'_>) -> sys::Result<Trees> {
        let memory = sys::memory(shown.len() / 3 * size_of::<i32>())?;
        for place in memory.chunks_exact_mut(size_of::<i32>()) {
            let (access, source, _) = next(&mut shown)?;
            let without = match access {
                b'w' => Without::PRIVILEGES,
                _ => Without::PRIVILEGES.and(Without::WRITING),
            };
            let tree = match isolate::take_tree(source, Some(without)) {
                Err(Errno::NOENT | Errno::ACCES) if access == b'o' => Fd(-1),
                taken => taken?,
            };
            place.copy_from_slice(&tree.0.to_ne_bytes());
        }
        Ok(Trees(memory))
    }

    fn place(self, mut shown: Words<'_>) -> sys::Result<()> {
        for place in self.0.chunks_exact(size_of::<i32>()) {
            let (_, _, target) = next(&mut shown)?;
            let tree = Fd(place.try_into().map_or(-1, i32::from_ne_bytes));
            if tree.0 >= 0 {
                make_way(target, isolate::is_folder(tree))?;
                isolate::place_tree(tree, target)?;
            }
        }
        Ok(())
    }
}

fn next<'a>(shown: &mut Words<'a>) -> sys::Result<(u8, &'a [u8], &'a [u8])> {
    match (shown.next(), shown.next(), shown.next()) {
        (Some([access, 0]), Some(source), Some(target)) => Ok((*access, source, target)),
        _ => Err(Errno::INVAL),
    }
}

/// Makes the folders that lead to a place, and an empty folder or file there, unless they are there.
fn make_way(target: &[u8], folder: bool) -> sys::Result<()> {
    let whole = target.strip_suffix(b"\0").unwrap_or(target);
    let ends = whole.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends {
        make(whole.get(..end).unwrap_or_default(), isolate::make_folder)?;
    }
    make(whole, if folder { isolate::make_folder } else { isolate::make_file })
}

fn make(path: &[u8], how: fn(&[u8]) -> sys::Result<()>) -> sys::Result<()> {
    let path = Path::<PATH_MAX>::of(&[path]).ok_or(Errno::INVAL)?;
    match how(path.ended()) {
        // Where nothing can be made, it is there, or placing it will fail.
        Err(Errno::ROFS | Errno::ACCES | Errno::ISDIR) => Ok(()),
        made => made,
    }
}

/// The devices that a run has.
const DEVICES: [&[u8]; 5] = [b"/dev/null\0", b"/dev/zero\0", b"/dev/full\0", b"/dev/random\0", b"/dev/urandom\0"];
/// Names that programs expect in `/dev`, and where they lead to.
const LINKS: [(&[u8], &[u8]); 5] = [
    (b"/proc/self/fd\0", b"/dev/fd\0"),
    (b"/proc/self/fd/0\0", b"/dev/stdin\0"),
    (b"/proc/self/fd/1\0", b"/dev/stdout\0"),
    (b"/proc/self/fd/2\0", b"/dev/stderr\0"),
    (b"pts/ptmx\0", b"/dev/ptmx\0"),
];

fn take_devices() -> sys::Result<[Fd; 5]> {
    let mut taken = [Fd(-1); 5];
    for (place, device) in taken.iter_mut().zip(DEVICES) {
        *place = isolate::take_tree(device, None)?;
    }
    Ok(taken)
}

fn place_devices(devices: [Fd; 5]) -> sys::Result<()> {
    isolate::mount_new(b"tmpfs\0", b"/dev\0", b"mode=755\0", true)?;
    for (tree, device) in devices.into_iter().zip(DEVICES) {
        isolate::make_file(device)?;
        isolate::place_tree(tree, device)?;
    }
    for (to, name) in LINKS {
        isolate::make_link(to, name)?;
    }
    isolate::make_folder(b"/dev/pts\0")?;
    isolate::mount_new(b"devpts\0", b"/dev/pts\0", TERMINALS, true)?;
    isolate::make_folder(b"/dev/shm\0")?;
    isolate::mount_new(b"tmpfs\0", b"/dev/shm\0", SHARED_MEMORY, false)?;
    isolate::restrict_mount(b"/dev\0", Without::WRITING)
}

//! The system calls that no skill needs, as programs for the kernel.
//!
//! They are refused as if the caller lacked the privilege, so that programs that try them go on without.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Refused whatever their arguments are.
const NEVER: &[i64] = &[
    // Other file systems, other roots.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Other processes, other namespaces.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_vhangup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Answered as if the kernel did not know them, so that callers use an older way: their arguments lie in memory, where no filter sees them.
const UNKNOWN: &[i64] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// New namespaces of any kind.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Kinds of sockets that programs use: this machine, both versions of the internet protocol, and questions about interfaces.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// What writes into the input of a terminal.
const TERMINAL: [u64; 2] = [libc::TIOCSTI, libc::TIOCLINUX];

const SET_LEASE: u64 = libc::F_SETLEASE.unsigned_abs() as u64;

const X32: u32 = 0x4000_0000;

/// All programs in the form that the shim reads; empty for a machine that has none.
pub(crate) fn encoded() -> &'static [u8] {
    static ENCODED: LazyLock<Vec<u8>> =
        LazyLock::new(|| programs().map(|programs| encode(&programs)).unwrap_or_default());
    &ENCODED
}

fn programs() -> Result<Vec<BpfProgram>, BackendError> {
    let refused = refused()?;
    let unknown = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    let mut programs = vec![compile(unknown, libc::ENOSYS)?, compile(refused, libc::EPERM)?];
    if cfg!(target_arch = "x86_64") {
        programs.push(without_x32());
    }
    Ok(programs)
}

fn refused() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = NEVER.iter().map(|call| (*call, Vec::new())).collect();
    let namespace =
        |flag: i32| when(&[(0, Is::MaskedEq(u64::from(flag.unsigned_abs())), u64::from(flag.unsigned_abs()))]);
    let namespaces = || NAMESPACES.into_iter().map(namespace).collect::<Result<Vec<_>, _>>();
    rules.insert(libc::SYS_unshare, namespaces()?);
    rules.insert(libc::SYS_clone, namespaces()?);
    let strange: Vec<_> = FAMILIES.iter().map(|family| (0, Is::Ne, u64::from(family.unsigned_abs()))).collect();
    let raw = [
        (1, Is::MaskedEq(0xf), u64::from(libc::SOCK_RAW.unsigned_abs())),
        (0, Is::Ne, u64::from(libc::AF_NETLINK.unsigned_abs())),
    ];
    rules.insert(libc::SYS_socket, vec![when(&strange)?, when(&raw)?]);
    let typed = TERMINAL.iter().map(|request| when(&[(1, Is::Eq, *request)]));
    rules.insert(libc::SYS_ioctl, typed.collect::<Result<_, _>>()?);
    // Whoever has one on a file, which need not be writable, keeps everybody else from opening it: the files of other skills, too.
    rules.insert(libc::SYS_fcntl, vec![when(&[(1, Is::Eq, SET_LEASE)])?]);
    Ok(rules)
}

/// A rule for calls whose arguments are all so.
fn when(conditions: &[(u8, Is, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions
        .iter()
        .map(|(argument, is, value)| SeccompCondition::new(*argument, Length::Dword, is.clone(), *value));
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, error: i32) -> Result<BpfProgram, BackendError> {
    let machine = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error.unsigned_abs()), machine)?.try_into()
}

/// Calls by the numbers of the x32 interface would pass by the rules for the usual numbers.
fn without_x32() -> BpfProgram {
    let instruction = |code: u32, jt, jf, k| seccompiler::sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The number of the call.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs()),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn encode(programs: &[BpfProgram]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for program in programs {
        bytes.extend(u16::try_from(program.len()).unwrap_or(u16::MAX).to_ne_bytes());
        for instruction in program {
            bytes.extend(instruction.code.to_ne_bytes());
            bytes.extend([instruction.jt, instruction.jf]);
            bytes.extend(instruction.k.to_ne_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_programs_for_this_machine_and_each_is_whole() {
        let programs = programs().unwrap();
        let lengths: usize = programs.iter().map(|program| 2 + program.len() * 8).sum();
        assert_eq!(encoded().len(), lengths);
        assert!(programs.iter().all(|program| program.len() > 3 && program.len() < 4096));
    }
}

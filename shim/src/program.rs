//! The shim as a program: its entry, and what a program without a C library has to bring along.
#![no_std]
#![no_main]
// Loops below are what others call: they must not be compiled into calls of themselves.
#![no_builtins]

use core::arch::global_asm;

#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {entry}", "ud2", entry = sym entry);

#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, #0", "mov x30, #0", "b {entry}", entry = sym entry);

extern "C" fn entry() -> ! {
    skill_runner_shim::serve::serve()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The service then ends the run in the shim's place.
    skill_runner_shim::serve::give_up()
}

/// Named by the unwind tables of `core`; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Memory is copied by words: byte by byte it took 0.3 ms of every run.
const WORD: usize = size_of::<usize>();

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    let words = length / WORD;
    for at in 0..words {
        // SAFETY: the caller gives two areas of this length, and a word need not be aligned here.
        unsafe { to.cast::<usize>().add(at).write_unaligned(from.cast::<usize>().add(at).read_unaligned()) };
    }
    for at in words * WORD..length {
        // SAFETY: as above.
        unsafe { *to.add(at) = *from.add(at) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, length: usize) -> *mut u8 {
    if (to as usize) < (from as usize) {
        // SAFETY: as for memcpy; no word or byte is written before it is read.
        return unsafe { memcpy(to, from, length) };
    }
    for at in (0..length).rev() {
        // SAFETY: as above, from the end.
        unsafe { *to.add(at) = *from.add(at) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, length: usize) -> *mut u8 {
    let words = length / WORD;
    let word = usize::from_ne_bytes([value as u8; WORD]);
    for at in 0..words {
        // SAFETY: the caller gives an area of this length, and a word need not be aligned here.
        unsafe { to.cast::<usize>().add(at).write_unaligned(word) };
    }
    for at in words * WORD..length {
        // SAFETY: as above.
        unsafe { *to.add(at) = value as u8 };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    for at in 0..length {
        // SAFETY: the caller gives two areas of this length.
        let (left, right) = unsafe { (*left.add(at), *right.add(at)) };
        if left != right {
            return i32::from(left) - i32::from(right);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, length: usize) -> i32 {
    // SAFETY: the same promise.
    unsafe { memcmp(left, right, length) }
}

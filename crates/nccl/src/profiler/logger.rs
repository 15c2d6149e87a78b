//! The log that plugins are given: a function of C with any number of arguments, as `printf` has.
//! An unsafe boundary.
//!
//! Rust cannot define such a function. On x86-64 a few instructions lay its arguments out for
//! `vsnprintf`, by the System V ABI; elsewhere plugins' lines show their formats.

#![expect(unsafe_code, reason = "a function of C with a variable number of arguments")]

use std::ffi::{CStr, c_char, c_int, c_void};

use super::layout::{LEVEL_INFO, LEVEL_WARN, LogFlags, Logger};
use crate::log::{self, NO_DEVICE, Subsystem};

/// Longest line of a plugin, in bytes.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 1024;

/// What plugins are given.
#[cfg(target_arch = "x86_64")]
pub const LOGGER: Logger = variadic;

/// What plugins are given.
#[cfg(not(target_arch = "x86_64"))]
pub const LOGGER: Logger = {
    type Fixed = unsafe extern "C" fn(c_int, LogFlags, *const c_char, c_int, *const c_char);
    let fixed: Fixed = log_format;
    // SAFETY: functions have one size; a caller passes these arguments first, and a callee may
    // leave others alone.
    unsafe { std::mem::transmute::<Fixed, Logger>(fixed) }
};

/// Saves the registers in which arguments come, and passes a `va_list` of those behind the first
/// five to [`log_arguments`].
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn variadic() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        // 176 bytes of registers, then 24 of the list; a multiple of 16.
        "sub rsp, 208",
        "mov [rsp], rdi",
        "mov [rsp + 8], rsi",
        "mov [rsp + 16], rdx",
        "mov [rsp + 24], rcx",
        "mov [rsp + 32], r8",
        "mov [rsp + 40], r9",
        "test al, al",
        "je 2f",
        "movaps [rsp + 48], xmm0",
        "movaps [rsp + 64], xmm1",
        "movaps [rsp + 80], xmm2",
        "movaps [rsp + 96], xmm3",
        "movaps [rsp + 112], xmm4",
        "movaps [rsp + 128], xmm5",
        "movaps [rsp + 144], xmm6",
        "movaps [rsp + 160], xmm7",
        "2:",
        // Five whole numbers are taken, and no others.
        "mov dword ptr [rsp + 176], 40",
        "mov dword ptr [rsp + 180], 48",
        // What did not fit into registers lies behind the return address.
        "lea rax, [rbp + 16]",
        "mov [rsp + 184], rax",
        "mov [rsp + 192], rsp",
        "lea r9, [rsp + 176]",
        "call {log}",
        "leave",
        "ret",
        log = sym log_arguments,
    )
}

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    safe fn vsnprintf(
        to: Option<&mut [u8; LINE_BYTES]>,
        bytes: usize,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// Logs a line of a plugin, whose `arguments` are those of its `format`.
#[cfg(target_arch = "x86_64")]
extern "C" fn log_arguments(
    level: c_int,
    flags: LogFlags,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) {
    if format.is_null() || !is_shown(level, flags) {
        return;
    }
    let mut line = [0; LINE_BYTES];
    vsnprintf(Some(&mut line), LINE_BYTES, format, arguments);
    let text = CStr::from_bytes_until_nul(&line).unwrap_or_default();
    write(level, flags, &text.to_string_lossy());
}

/// Logs the `format` of a line of a plugin.
#[cfg(not(target_arch = "x86_64"))]
unsafe extern "C" fn log_format(
    level: c_int,
    flags: LogFlags,
    _file: *const c_char,
    _line: c_int,
    format: *const c_char,
) {
    if format.is_null() || !is_shown(level, flags) {
        return;
    }
    // SAFETY: a plugin passes a format, which is a string of C.
    let text = unsafe { CStr::from_ptr(format) };
    write(level, flags, &text.to_string_lossy());
}

fn is_shown(level: c_int, flags: LogFlags) -> bool {
    level == LEVEL_WARN || level == LEVEL_INFO && subsystem(flags).is_some()
}

fn write(level: c_int, flags: LogFlags, text: &str) {
    match subsystem(flags) {
        _ if level == LEVEL_WARN => log::warn_at(NO_DEVICE, "profiler plugin", text),
        Some(subsystem) => log::info(subsystem, NO_DEVICE, format_args!("{text}")),
        None => {}
    }
}

/// The first subsystem of `flags` of which lines are shown.
fn subsystem(flags: LogFlags) -> Option<Subsystem> {
    const ALL: [(LogFlags, Subsystem); 9] = [
        (1 | 1 << 16, Subsystem::Init),
        (1 << 1 | 1 << 9, Subsystem::Coll),
        (1 << 4 | 1 << 10, Subsystem::Net),
        (1 << 5 | 1 << 6, Subsystem::Tuning),
        (1 << 7, Subsystem::Env),
        (1 << 8 | 1 << 17, Subsystem::Alloc),
        (1 << 12, Subsystem::Bootstrap),
        (1 << 13, Subsystem::Reg),
        (1 << 2 | 1 << 3 | 1 << 11 | 1 << 14 | 1 << 15, Subsystem::Other),
    ];
    let named = ALL.into_iter().filter(|(bits, _)| flags & bits != 0);
    named.map(|(_, subsystem)| subsystem).find(|subsystem| log::is_enabled(*subsystem))
}

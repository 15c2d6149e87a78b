//! The C interface under the Python package `msccl`: two functions, of which Python needs no more
//! than `ctypes`.
//!
//! ```c
//! /* Does what `request`, an object in JSON, says:
//!    {"arguments": ["verify", "-", "--format", "json"], "text": "algorithm …"}.
//!    Returns an object in JSON, {"exit": 0, "stdout": "…", "stderr": "…"}, to be given to
//!    msccl_python_free. Null if there is no memory. */
//! char *msccl_python_call(const char *request);
//! void msccl_python_free(char *answer);
//! ```
//!
//! `arguments` are those of the command `msccl`, `text` is what `-` reads. So Python, the command
//! and this library have one truth, and a wheel serves every version of Python.
//!
//! # Guarantees
//!
//! * Nothing is printed but the message of a panic, which is a bug; the answer says exit 101.
//! * Any bytes may be passed: what is no request gets exit 2, and a message.
//! * Calls from several threads do not disturb one another.

#![deny(unsafe_code)]

mod c_interface;
mod request;

pub use request::answer;

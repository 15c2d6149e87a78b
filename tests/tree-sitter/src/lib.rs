//! Nothing but tests: see `tests/agreement`.

#![deny(unsafe_code)]

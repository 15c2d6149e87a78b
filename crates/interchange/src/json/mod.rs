//! Our own IR as JSON.

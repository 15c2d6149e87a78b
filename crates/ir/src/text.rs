//! Readable text form. Written next.

//! The language server: what editors ask about programs, over the Language Server Protocol.
//!
//! [`serve`] holds a conversation over a connection. What it says of a program is what the commands
//! `msccl check`, `verify` and `fmt` say of it, with the same parser, compiler, verifier and
//! formatter; a [`Host`] gives it files and machines.
//!
//! | module | subject |
//! |---|---|
//! | `line_index`, `document`, `uri` | texts, positions in UTF-16, identifiers |
//! | `token`, `mend`, `names`, `workspace` | what names mean, also while a text does not parse |
//! | `launch` | for which ranks and on which machine programs are judged |
//! | `judgement` | what is wrong, and what is proved |
//! | `worker` | judgements on threads of their own; cancelled by edits |
//! | `feature` | one module for each question of an editor |
//! | `server` | the conversation |
//!
//! Guarantees: diagnostics carry the version of the text that they are about, and none is sent for
//! an older version than the server has; every position counts UTF-16 code units; no text and no
//! message makes the server end.
//!
//! Absent from this crate: files, the environment, the terminal, any rule of the language.

#![deny(unsafe_code)]

mod capability;
mod document;
mod feature;
mod host;
mod judgement;
mod launch;
mod line_index;
mod mend;
mod names;
mod server;
mod token;
mod uri;
mod worker;
mod workspace;

pub use host::{Host, Picture, TimelineRequest};
pub use lsp_server::Connection;
pub use server::{ServeError, serve};

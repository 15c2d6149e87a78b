//! Compiler, verifier and cost model behind one function from JSON to JSON, for a page in a
//! browser.
//!
//! [`answer`] takes a [`request::Request`] and gives an object. If there is nothing to say, that
//! object has one key, `error`, and perhaps `diagnostics`. [`exports`] puts `answer` behind three
//! functions that WebAssembly can export.
//!
//! ```
//! let text = "algorithm swap(ranks N = 2) implements allreduce() {
//!     for r in 0..N { output@r = input@0 + input@1 }
//! }";
//! let source = serde_json::json!({ "name": "swap.msccl", "text": text });
//! let request = serde_json::json!({ "op": "prove", "source": source }).to_string();
//! let answer: serde_json::Value = serde_json::from_str(&msccl_playground::answer(&request))?;
//! assert_eq!(answer["verdict"]["verdict"], "proved");
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! Absent from this crate: the page, which is in the folder `page`, and any logic: all that is said
//! comes from `msccl-pages` and the crates below it.

#![deny(unsafe_code)]

mod compare;
mod draw;
mod examples;
pub mod exports;
mod prove;
mod replay;
pub mod request;
mod source;

use msccl_pages::failure::Failure;
use serde::Serialize;
use serde_json::{Value, json};

use request::Request;

/// Answers a request, both as JSON.
pub fn answer(request: &str) -> String {
    let answered = match serde_json::from_str::<Request>(request) {
        Ok(request) => answered(request),
        Err(error) => Err(Failure::new(format!("cannot read the request: {error}"))),
    };
    answered.unwrap_or_else(|failure| failed(&failure)).to_string()
}

fn answered(request: Request) -> Result<Value, Failure> {
    match request {
        Request::Check { source } => Ok(source::check(&source)),
        Request::Prove { source } => prove::prove(&source),
        Request::Chunks { source } => draw::chunks(&source),
        Request::Schedule { source } => draw::schedule(&source),
        Request::Timeline { source, bytes } => draw::timeline(&source, bytes),
        Request::Replay { source } => replay::replay(&source),
        Request::Figures { source } => compare::figures(&source),
        Request::Compare { sources } => compare::compare(&sources),
        Request::Export { source, dialect } => draw::export(&source, dialect),
        Request::Format { text } => draw::format(&text),
        Request::Page { source } => draw::page(&source),
        Request::Library => Ok(examples::library()),
    }
}

fn failed(failure: &Failure) -> Value {
    to_value(&failure.to_json(""))
}

/// What is made here is always representable.
fn to_value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

//! `msccl lsp`: the language server, over standard input and output.

mod host;

use std::sync::Arc;

use msccl_lsp::Connection;

use crate::args::LspArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

use host::EditorHost;

/// Serves an editor until it says goodbye.
///
/// # Errors
///
/// It broke off, or does not speak the protocol.
pub fn lsp(args: &LspArgs) -> Result<Exit> {
    let LspArgs { stdio: _ } = args;
    let (connection, threads) = Connection::stdio();
    let served = msccl_lsp::serve(&connection, Arc::new(EditorHost::new()));
    // The writing thread ends when nobody can give it messages any more.
    drop(connection);
    let written = threads.join();
    served.map_err(|error| Failure::new(error.to_string()))?;
    written.map_err(|error| Failure::new(format!("the editor cannot be reached: {error}")))?;
    Ok(Exit::Success)
}

//! x
use msccl_syntax::Diagnostic;
use super::Dag;
/// x
pub fn check_promise(_dag: &Dag) -> Result<(), Vec<Diagnostic>> { Ok(()) }

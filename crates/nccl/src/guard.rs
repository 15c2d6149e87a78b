//! Around every call from C: panics stay inside, failures become numbers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{Code, Outcome};
use crate::fault::Fault;
use crate::{group, log};

/// Runs the body of the function `name` and gives C its number. A failure is logged, kept for
/// `ncclGetLastError`, and ends the group that is open on this thread, if there is one.
pub fn answer<T: Into<Outcome>>(name: &str, body: impl FnOnce() -> Result<T, Fault>) -> Code {
    match contain(body) {
        Ok(outcome) => outcome.into().into(),
        Err(fault) => {
            log::warn(name, &fault);
            group::latch(&fault);
            fault.code
        }
    }
}

/// Runs `body`; a panic in it becomes a fault of this library.
pub fn contain<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    // What a panic leaves behind half done is a communicator's, which the fault then fails.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "no text".to_owned());
        Err(Fault::internal(format!("this library has a fault: {text}; please report it")))
    })
}

/// Runs a body that gives C a value other than a number of success or failure; `otherwise` is
/// what C gets if there is none.
pub fn value<T>(name: &str, otherwise: T, body: impl FnOnce() -> Result<T, Fault>) -> T {
    contain(body).unwrap_or_else(|fault| {
        log::warn(name, &fault);
        otherwise
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_error;

    #[test]
    fn panics_stay_inside() {
        let _alone = log::tests::alone();
        let code = answer("Test", || -> Result<(), Fault> { panic!("number {}", 7) });
        assert_eq!(code, Code::InternalError);
        assert!(last_error::get().contains("number 7"), "{}", last_error::get());
        assert_eq!(answer("Test", || Ok(Outcome::InProgress)), Code::InProgress);
        assert_eq!(value("Test", -1, || Err(Fault::usage("no"))), -1);
    }
}

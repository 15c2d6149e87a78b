//! A log that keeps events: for tools that report afterwards, and for tests.

use std::sync::{Mutex, PoisonError};

use crate::event::{Event, Log};

/// Keeps events, in the order in which they happened.
#[derive(Default, Debug)]
pub struct EventLog(Mutex<Vec<Event>>);

impl Log for EventLog {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
    }
}

impl EventLog {
    /// What `choose` takes from the events so far.
    pub fn collect<T>(&self, choose: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter().filter_map(choose).collect()
    }

    /// The hang reports.
    pub fn reports(&self) -> Vec<String> {
        self.collect(|event| match event {
            Event::HangReport(report) => Some(report.clone()),
            _ => None,
        })
    }
}

//! Work on all processors.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// Does `each` for all of `items`, as many at a time as there are processors. After an error, and
/// after the `deadline`, no more are begun; the first is begun in any case.
pub fn on_all_processors<T: Send>(
    items: Vec<T>,
    deadline: Option<Instant>,
    each: impl Fn(T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let (left, failed) = (Mutex::new(items.into_iter()), AtomicBool::new(false));
    let work = || {
        let mut is_first = true;
        let may_begin = |is_first: bool| {
            let in_time = deadline.is_none_or(|deadline| Instant::now() < deadline);
            (is_first || in_time) && !failed.load(Ordering::Relaxed)
        };
        while let Some(item) = may_begin(is_first).then(|| next(&left)).flatten() {
            is_first = false;
            each(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err("a thread panicked".to_owned());
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(panicked))
    })
}

/// What is next of those that are `left`.
fn next<T>(left: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    left.lock().ok()?.next()
}

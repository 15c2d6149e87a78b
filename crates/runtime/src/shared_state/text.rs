//! Texts in a shared state: written by one rank, read by any, at any time.
//!
//! The version is odd while a text is being written, and a reader that finds it odd, or changed
//! once it has read, reads again. Bytes go by whole words, because all access is through atomics.

use std::sync::atomic::{Ordering, fence};

use msccl_collective::Rank;

use super::SharedState;
use super::layout::Text;

/// How often a reader tries. A writer takes microseconds, unless its process was stopped in the
/// middle.
const TRIES: u32 = 1000;

impl SharedState {
    /// Replaces the `text` of `rank`; what does not fit is cut off at its end. One thread at a
    /// time.
    pub(super) fn write_text(&self, rank: Rank, text: Text, content: &str) {
        let [version, length, start] = text.of(rank);
        let mut fitting = content.len().min(text.capacity());
        while !content.is_char_boundary(fitting) {
            fitting -= 1;
        }
        let bytes = &content.as_bytes()[..fitting];
        let before = self.word(version).load(Ordering::Relaxed);
        self.word(version).store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.word(length).store(bytes.len() as u64, Ordering::Relaxed);
        for (place, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(start + 8 * place).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.word(version).store((before | 1) + 1, Ordering::Release);
    }

    /// The `text` of `rank`; `None` if it cannot be read, because its writer stopped in the middle.
    pub(super) fn read_text(&self, rank: Rank, text: Text) -> Option<String> {
        (0..TRIES).find_map(|tries| {
            if tries > 0 {
                std::thread::yield_now();
            }
            self.try_read_text(rank, text)
        })
    }

    fn try_read_text(&self, rank: Rank, text: Text) -> Option<String> {
        let [version, length, start] = text.of(rank);
        let before = self.word(version).load(Ordering::Acquire);
        let length_bytes = self.word(length).load(Ordering::Relaxed) as usize;
        if before & 1 == 1 || length_bytes > text.capacity() {
            return None;
        }
        let word = |place| self.word(start + 8 * place).load(Ordering::Relaxed).to_le_bytes();
        let mut bytes: Vec<u8> = (0..length_bytes.div_ceil(8)).flat_map(word).collect();
        bytes.truncate(length_bytes);
        fence(Ordering::Acquire);
        let unchanged = self.word(version).load(Ordering::Relaxed) == before;
        unchanged.then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[test]
    fn texts_come_back() {
        let shared_state = SharedState::alone(Rank(1), 2);
        let check = |text: &str| {
            shared_state.write_text(Rank(1), Text::Reason, text);
            assert_eq!(shared_state.read_text(Rank(1), Text::Reason).as_deref(), Some(text));
        };
        ["", "a", "eight by", "ninebytes", "äöü — ≥"].into_iter().for_each(check);
        assert_eq!(shared_state.read_text(Rank(0), Text::Reason).as_deref(), Some(""));
    }

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        let shared_state = SharedState::alone(Rank(0), 1);
        shared_state.write_text(
            Rank(0),
            Text::Reason,
            &format!("x{}", "ä".repeat(Text::Reason.capacity())),
        );
        let text = shared_state.read_text(Rank(0), Text::Reason).unwrap();
        assert_eq!(text.len(), Text::Reason.capacity() - 1);
        assert!(text.ends_with('ä'));
    }

    #[test]
    fn a_reader_never_sees_half_of_a_text() {
        let (shared_state, done) = (SharedState::alone(Rank(0), 1), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..20_000_usize {
                    let letter = char::from(b'a' + (turn % 26) as u8);
                    let text = letter.to_string().repeat(turn % 200 + 1);
                    shared_state.write_text(Rank(0), Text::Answer, &text);
                }
                done.store(true, Ordering::Release);
            });
            while !done.load(Ordering::Acquire) {
                let text = shared_state.try_read_text(Rank(0), Text::Answer).unwrap_or_default();
                let first = text.chars().next();
                assert!(text.chars().all(|letter| Some(letter) == first), "{text}");
            }
        });
    }

    #[test]
    fn a_text_whose_writer_stopped_is_not_read() {
        let shared_state = SharedState::alone(Rank(0), 1);
        let [version, ..] = Text::Answer.of(Rank(0));
        shared_state.word(version).store(1, Ordering::Release);
        assert_eq!(shared_state.read_text(Rank(0), Text::Answer), None);
        shared_state.write_text(Rank(0), Text::Answer, "again");
        assert_eq!(shared_state.read_text(Rank(0), Text::Answer).as_deref(), Some("again"));
    }
}

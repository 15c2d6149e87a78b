//! The secret of a root at a fixed address.

use std::fmt;

use crate::error::Error;

/// Fewest bytes of a user's secret.
const SECRET_BYTES_MIN: usize = 16;

/// What the ranks of a root at a fixed address know and nobody else does.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub(crate) Vec<u8>);

impl Secret {
    /// The secret of these bytes, of which white space at both ends does not count.
    ///
    /// # Errors
    ///
    /// They are so few that they can be guessed.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = bytes.trim_ascii();
        if bytes.len() < SECRET_BYTES_MIN {
            let text = format!(
                "the secret has {} bytes, expected {SECRET_BYTES_MIN} at least, such as those of \
                 `openssl rand -hex 32`",
                bytes.len()
            );
            return Err(Error::invalid(text));
        }
        Ok(Self(bytes.to_vec()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

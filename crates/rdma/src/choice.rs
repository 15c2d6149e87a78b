//! Which devices and ports users want: `NCCL_IB_HCA`.
//!
//! A list, separated by commas, of names of devices, each perhaps with `:` and a port. A name
//! stands for all devices that begin with it; after a `=` before the list, for the device of
//! exactly that name. A `^` before the list (and before the `=`) leaves out what the list names.
//! Nothing, or an empty list, allows all.

/// What `NCCL_IB_HCA` says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    written: String,
    leaves_out: bool,
    exactly: bool,
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    name: String,
    port: Option<u8>,
}

impl Choice {
    /// Reads it.
    ///
    /// # Errors
    /// If an entry has no name or its port is not a number from 1 to 255; in words.
    pub fn read(written: &str) -> Result<Self, String> {
        let list = written.trim();
        let (leaves_out, list) = strip(list, '^');
        let (exactly, list) = strip(list, '=');
        let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries
            .map(Entry::read)
            .collect::<Result<_, _>>()
            .map_err(|why| format!("NCCL_IB_HCA is `{written}`: {why}"))?;
        Ok(Self { written: written.to_owned(), leaves_out, exactly, entries })
    }

    /// Whether this port of the device may be used.
    pub fn allows(&self, device: &str, port: u8) -> bool {
        if self.entries.is_empty() {
            return true;
        }
        let named = self.entries.iter().any(|entry| {
            let name =
                if self.exactly { device == entry.name } else { device.starts_with(&entry.name) };
            name && entry.port.is_none_or(|number| number == port)
        });
        named != self.leaves_out
    }

    /// As the user wrote it.
    pub fn written(&self) -> &str {
        &self.written
    }
}

fn strip(text: &str, sign: char) -> (bool, &str) {
    text.strip_prefix(sign).map_or((false, text), |rest| (true, rest))
}

impl Entry {
    fn read(written: &str) -> Result<Self, String> {
        let (name, port) = match written.split_once(':') {
            None => (written, None),
            Some((name, port)) => {
                let number = port.parse().ok().filter(|number| *number > 0);
                let wrong = || format!("`{port}` in `{written}` is no port; ports count from 1");
                (name, Some(number.ok_or_else(wrong)?))
            }
        };
        if name.is_empty() {
            return Err(format!("`{written}` names no device"));
        }
        Ok(Self { name: name.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: [(&str, u8); 5] =
        [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_1", 1), ("mlx5_10", 1), ("rxe0", 1)];

    fn allowed(written: &str) -> Vec<(&'static str, u8)> {
        let choice = Choice::read(written).unwrap();
        PORTS.into_iter().filter(|(device, port)| choice.allows(device, *port)).collect()
    }

    #[test]
    fn nothing_allows_all() {
        for written in ["", " ", "^", "=", "^=", ","] {
            assert_eq!(allowed(written), PORTS, "`{written}`");
        }
    }

    #[test]
    fn a_name_stands_for_all_that_begin_with_it() {
        assert_eq!(allowed("mlx5"), PORTS[..4]);
        assert_eq!(allowed("mlx5_1"), [("mlx5_1", 1), ("mlx5_10", 1)]);
    }

    #[test]
    fn an_equals_sign_asks_for_the_exact_name() {
        assert_eq!(allowed("=mlx5_1"), [("mlx5_1", 1)]);
        assert_eq!(allowed("=mlx5"), []);
    }

    #[test]
    fn a_port_may_be_named() {
        assert_eq!(allowed("mlx5_0:2, rxe0:1"), [("mlx5_0", 2), ("rxe0", 1)]);
        assert_eq!(allowed("rxe0:2"), []);
    }

    #[test]
    fn a_caret_leaves_out() {
        assert_eq!(allowed("^mlx5"), [("rxe0", 1)]);
        assert_eq!(allowed("^=mlx5_1,rxe0"), [("mlx5_0", 1), ("mlx5_0", 2), ("mlx5_10", 1)]);
        assert_eq!(allowed("^mlx5_0:1"), PORTS[1..]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for (written, found) in [("mlx5_0:x", "`x`"), ("mlx5_0:0", "`0`"), (":1", "no device")] {
            let why = Choice::read(written).unwrap_err();
            assert!(why.contains(found) && why.contains("NCCL_IB_HCA"), "{why}");
        }
    }
}

//! Sets of Chakra traces: what `msccl compile --emit chakra` writes.

use std::fs;

use msccl_chakra::{Call, Traces, file_name};
use msccl_ir::{Algorithm, Target};

use crate::args::CompileArgs;
use crate::artifact;
use crate::failure::{Failure, Result};
use crate::size::{ByteSize, range_in_words};

/// What is to be traced, and where to.
pub struct TraceSet<'a> {
    /// What all names of files begin with.
    prefix: &'a str,
    call: Call,
}

/// What stands in files now.
pub struct Written {
    /// Their names, for people.
    pub names: String,
    /// How many bytes they have together.
    pub bytes: u64,
}

impl<'a> TraceSet<'a> {
    /// What is requested.
    ///
    /// # Errors
    ///
    /// There is no name or no size.
    pub fn of(args: &'a CompileArgs) -> Result<Self> {
        let Some(path) = args.file_written() else {
            let text = "traces are files, one for each rank; say -o PREFIX to write PREFIX.0.et, \
                        PREFIX.1.et, …";
            return Err(Failure::new(text));
        };
        let Some(ByteSize(bytes)) = args.size else {
            return Err(Failure::new(
                "traces hold for one size of a call; say which by --size 1MiB",
            ));
        };
        // One GB/s is 1000 bytes/µs.
        let tb_bytes_per_us = args.tb_rate.map(|gb_per_s| gb_per_s * 1000.0);
        let prefix = path.strip_suffix(".et").unwrap_or(path);
        Ok(Self { prefix, call: Call { bytes, tb_bytes_per_us } })
    }

    /// Writes all traces. If one of them cannot be written, none stays.
    ///
    /// # Errors
    ///
    /// The algorithm does not serve the size, has no traces, or a file cannot be written.
    pub fn write(&self, algorithm: &Algorithm, target: &Target) -> Result<Written> {
        let Call { bytes, .. } = self.call;
        if !algorithm.sizes.contains(bytes) {
            let (served, size) = (range_in_words(algorithm.sizes), ByteSize(bytes));
            let text = format!("expected a size that it serves ({served}), found {size}");
            return Err(Failure::new(text));
        }
        let traces = Traces::new(algorithm, target, self.call)
            .map_err(|error| Failure::new(format!("cannot trace the algorithm: {error}")))?;
        let mut written = Vec::new();
        let mut bytes = 0;
        for rank in traces.ranks() {
            let path = file_name(self.prefix, rank);
            let trace = artifact::write(&path, |out| {
                traces.write_to(rank, out).map_err(|error| format!("cannot write {path}: {error}"))
            });
            match trace {
                Ok(length) => bytes += length,
                Err(error) => {
                    // A part of a set is of no use; that it stays is not worth a second error.
                    written.iter().for_each(|path| drop(fs::remove_file(path)));
                    return Err(Failure::new(error));
                }
            }
            written.push(path);
        }
        let names = match written.as_slice() {
            [first, .., last] => format!("{first} … {last}"),
            few => few.concat(),
        };
        Ok(Written { names, bytes })
    }
}

//! How ops and whole DAGs print: one line for each op, `r1.i[0] = r1.i[0] + r0.i[0]`.

use std::fmt;

use super::{At, ChunkDag, Hints, Op};

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Op { to, sources, count, hints: _, statement: _ } = self;
        write_run(f, *to, *count)?;
        for (position, source) in sources.iter().enumerate() {
            f.write_str(if position == 0 { " = " } else { " + " })?;
            write_run(f, *source, *count)?;
        }
        Ok(())
    }
}

fn write_run(f: &mut fmt::Formatter<'_>, at: At, count: u32) -> fmt::Result {
    write!(f, "{}.{}", at.rank, at.slot.run(count))
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hints { channel, send_tb, receive_tb, instance } = *self;
        let mut lead = " on ";
        let mut part = |f: &mut fmt::Formatter<'_>, name: &str, value: Option<u32>| {
            let Some(value) = value else { return Ok(()) };
            write!(f, "{}{name} {value}", std::mem::replace(&mut lead, ", "))
        };
        part(f, "channel", channel)?;
        part(f, "send tb", send_tb)?;
        part(f, "receive tb", receive_tb)?;
        part(f, "instance", (instance > 0).then_some(instance))
    }
}

/// The head, then the ops in program order.
impl fmt::Display for ChunkDag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scratch_chunks: u64 = self.scratch_chunks.iter().map(|&chunks| u64::from(chunks)).sum();
        writeln!(
            f,
            "{}: {}, {}, {}, {}, {} instances, {scratch_chunks} scratch chunks",
            self.name, self.collective, self.placement, self.protocol, self.sizes, self.instances,
        )?;
        for op in &self.ops {
            let hints = self.hints.get(op.hints.0 as usize).copied().unwrap_or_default();
            writeln!(f, "{op}{hints}")?;
        }
        Ok(())
    }
}

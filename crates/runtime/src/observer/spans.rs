//! From the records of thread blocks to when each did its part of a call.

use msccl_trace::record::{PackedRecord, Record, RecordKind};

use super::BlockSpan;

/// What is known of thread blocks whose part of a call has not ended.
#[derive(Default, Debug)]
pub(crate) struct BlockSpans {
    open: Vec<Option<OpenSpan>>,
}

#[derive(Clone, Copy, Debug)]
struct OpenSpan {
    span: BlockSpan,
    /// The time of the record before.
    last_ns: u64,
}

impl BlockSpans {
    /// Takes the next `records` of thread block `block`, and gives every part of a call that ends
    /// with one of them to `ended`.
    pub fn take(
        &mut self,
        block: usize,
        records: &[PackedRecord],
        mut ended: impl FnMut(BlockSpan),
    ) {
        let records = records.iter().filter_map(|packed| Record::unpack(*packed));
        let open = self.open_of(block);
        for record in records {
            if let Some(span) = advance(open, block as u32, record) {
                ended(span);
            }
        }
    }

    /// Records of thread block `block` are lost: of the part that they belong to, nothing is known.
    pub fn lose(&mut self, block: usize) {
        *self.open_of(block) = None;
    }

    fn open_of(&mut self, block: usize) -> &mut Option<OpenSpan> {
        if self.open.len() <= block {
            self.open.resize(block + 1, None);
        }
        &mut self.open[block]
    }
}

/// What `record` makes of the `open` part of a call; the part, if it ends.
fn advance(open: &mut Option<OpenSpan>, block: u32, record: Record) -> Option<BlockSpan> {
    let Record { time_ns, kind, step: _, message } = record;
    if kind == RecordKind::Begin {
        let (begin_ns, end_ns) = (time_ns, time_ns);
        let span =
            BlockSpan { call: message, block, begin_ns, end_ns, waiting_ns: 0, moving_ns: 0 };
        *open = Some(OpenSpan { span, last_ns: time_ns });
        return None;
    }
    let OpenSpan { span, last_ns } = open.as_mut()?;
    let taken_ns = time_ns.saturating_sub(*last_ns);
    (span.end_ns, *last_ns) = (time_ns, time_ns);
    match kind {
        RecordKind::WaitRoom | RecordKind::WaitData | RecordKind::WaitBlock => {
            span.waiting_ns += taken_ns;
        }
        RecordKind::Move => span.moving_ns += taken_ns,
        RecordKind::Begin | RecordKind::End | RecordKind::Count => {}
    }
    let is_over = kind == RecordKind::End;
    is_over.then(|| open.take()).flatten().map(|ended| ended.span)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_ns: u64, kind: RecordKind, message: u32) -> PackedRecord {
        Record { time_ns, kind, step: 0, message }.pack()
    }

    #[test]
    fn times_of_a_part_add_up() {
        let (mut spans, mut found) = (BlockSpans::default(), Vec::new());
        let first = [
            record(100, RecordKind::Begin, 7),
            record(130, RecordKind::WaitData, 1),
            record(150, RecordKind::Move, 1),
        ];
        let rest = [
            record(155, RecordKind::WaitRoom, 1),
            record(160, RecordKind::Move, 2),
            record(161, RecordKind::End, 0),
        ];
        spans.take(2, &first, |span| found.push(span));
        assert!(found.is_empty());
        spans.take(2, &rest, |span| found.push(span));
        let expected = BlockSpan {
            call: 7,
            block: 2,
            begin_ns: 100,
            end_ns: 161,
            waiting_ns: 35,
            moving_ns: 25,
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn of_a_part_with_lost_records_nothing_is_said() {
        let (mut spans, mut found) = (BlockSpans::default(), Vec::new());
        spans.take(0, &[record(1, RecordKind::Begin, 1)], |span| found.push(span));
        spans.lose(0);
        spans.take(0, &[record(9, RecordKind::End, 0)], |span| found.push(span));
        assert!(found.is_empty());
    }
}

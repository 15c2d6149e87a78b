//! From records as kernels write them to records as files have them.
//!
//! `kernels/device/record.cuh` says what the device's have: 48 bits of the time; and in those of
//! low-latency kernels a move with the wait before it, which perhaps ends the launch.

use msccl_trace::record::{PackedRecord, Record, RecordKind};

/// Bits of a time on the device.
const TIME_BITS: u32 = 48;

/// The code of a move with which the launch ends.
const LAST_MOVE: u32 = 7;

const KIND_SHIFT: u32 = 28;

/// A record as a kernel wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeviceRecord {
    /// Of the time in ns.
    low_bits: u64,
    /// How long before the end the wait was over, or 0 if there was none.
    waited_ns: u64,
    kind: DeviceKind,
    step: u32,
    message: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DeviceKind {
    Plain(RecordKind),
    LastMove,
}

impl DeviceRecord {
    /// From memory; `None` if there is none.
    pub fn unpack(packed: &PackedRecord) -> Option<Self> {
        let bits = u128::from_le_bytes(*packed);
        let (time, step, message) = (bits as u64, (bits >> 64) as u32, (bits >> 96) as u32);
        let kind = match step >> KIND_SHIFT {
            LAST_MOVE => DeviceKind::LastMove,
            code => DeviceKind::Plain(RecordKind::from_code(code)?),
        };
        Some(Self {
            low_bits: time & ((1 << TIME_BITS) - 1),
            waited_ns: time >> TIME_BITS,
            kind,
            step: step & ((1 << KIND_SHIFT) - 1),
            message,
        })
    }

    /// The time, if it is not before `earliest_ns`, which is less than three days earlier.
    pub fn time_ns(&self, earliest_ns: u64) -> Option<u64> {
        const WRAP: u64 = 1 << TIME_BITS;
        let high = earliest_ns & !(WRAP - 1);
        let time_ns = high | self.low_bits;
        // A difference of more than half a wrap is one that steps back.
        let ahead = time_ns.wrapping_sub(earliest_ns) & (WRAP - 1);
        (ahead < WRAP / 2).then_some(earliest_ns + ahead)
    }

    /// Appends the records of files to `records`: the end of the wait, if there was one, that of
    /// the move, and that of the launch. Its time is `time_ns`.
    pub fn expand(&self, time_ns: u64, records: &mut Vec<PackedRecord>) {
        let Self { low_bits: _, waited_ns, kind, step, message } = *self;
        let mut put = |time_ns: u64, kind, step, message| {
            records.push(Record { time_ns, kind, step, message }.pack());
        };
        if waited_ns != 0 {
            put(time_ns - waited_ns, RecordKind::WaitData, step, message);
        }
        match kind {
            DeviceKind::Plain(kind) => put(time_ns, kind, step, message),
            DeviceKind::LastMove => {
                put(time_ns, RecordKind::Move, step, message);
                put(time_ns, RecordKind::End, 0, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use msccl_kernels::recording::headers;

    use super::*;

    fn packed(time: u64, waited: u64, code: u32) -> PackedRecord {
        let words = [time | waited << TIME_BITS, u64::from(code << KIND_SHIFT | 3) | 9 << 32];
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        *bytes.first_chunk().unwrap()
    }

    fn expanded(packed: &PackedRecord, earliest_ns: u64) -> Vec<Record> {
        let (record, mut records) = (DeviceRecord::unpack(packed).unwrap(), Vec::new());
        record.expand(record.time_ns(earliest_ns).unwrap(), &mut records);
        records.into_iter().map(|of| Record::unpack(of).unwrap()).collect()
    }

    #[test]
    fn a_wait_and_the_end_come_out_of_a_move() {
        let of = |time_ns, kind, step, message| Record { time_ns, kind, step, message };
        let plain = expanded(&packed(1000, 0, 5), 900);
        assert_eq!(plain, [of(1000, RecordKind::Move, 3, 9)]);
        let last = expanded(&packed(1000, 40, LAST_MOVE), 900);
        let wait = of(960, RecordKind::WaitData, 3, 9);
        let (moved, end) = (of(1000, RecordKind::Move, 3, 9), of(1000, RecordKind::End, 0, 0));
        assert_eq!(last, [wait, moved, end]);
        assert_eq!(DeviceRecord::unpack(&[0; 16]), None);
    }

    #[test]
    fn times_get_their_high_bits_back() {
        let record = |time| DeviceRecord::unpack(&packed(time, 0, 5)).unwrap();
        let day_ns = 86_400_000_000_000;
        let earliest_ns = (7 << TIME_BITS) - 5;
        assert_eq!(record((1 << TIME_BITS) - 5).time_ns(earliest_ns), Some(earliest_ns));
        assert_eq!(record(3).time_ns(earliest_ns), Some((7 << TIME_BITS) + 3));
        assert_eq!(record(day_ns).time_ns(earliest_ns), Some((7 << TIME_BITS) + day_ns));
        assert_eq!(record((1 << TIME_BITS) - 6).time_ns(earliest_ns), None, "it steps back");
    }

    #[test]
    fn the_device_has_the_same_codes() {
        let header = headers().iter().find(|(name, _)| name == "record.cuh").unwrap();
        let code = |name: &str| {
            let start = format!("constexpr u32 RECORD_{name} = ");
            let line = header.1.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
            line.trim_end_matches(';').parse::<u32>().unwrap()
        };
        let names = ["BEGIN", "WAIT_ROOM", "WAIT_DATA", "WAIT_BLOCK", "MOVE", "END"];
        for (kind, name) in RecordKind::ALL.into_iter().zip(names) {
            assert_eq!(kind.code(), code(name), "{name}");
        }
        assert_eq!((code("LAST_MOVE"), code("KIND_SHIFT")), (LAST_MOVE, KIND_SHIFT));
        assert_eq!(code("WAITED_SHIFT") + 32, TIME_BITS);
    }
}

//! The files of a run, each by the clock of its rank.

use msccl_trace::record::Record;
use msccl_trace::recording::{
    Call, CallShapeDescription, ClockSample, Engine, Header, KernelDescription, LaunchKind, Moment,
    Recorder, Work,
};

use super::execution::Execution;
use super::{ImaginedClock, ImaginedRun};

/// UNIX time at which runs begin.
const START_UNIX_NS: u64 = 1_800_000_000_000_000_000;
/// `CLOCK_MONOTONIC` of host 0 then; other hosts have been up for other times.
const START_MONOTONIC_NS: u64 = 5_000_000_000_000;
/// How often clocks are read.
const READING_NS: f64 = 250_000.0;

impl ImaginedClock {
    fn monotonic_start_ns(&self) -> u64 {
        START_MONOTONIC_NS + u64::from(self.host) * 77_000_000_000_000
    }

    /// `CLOCK_MONOTONIC` at a true time.
    fn monotonic_ns(&self, true_ns: f64) -> u64 {
        self.monotonic_start_ns().wrapping_add_signed(true_ns.round() as i64)
    }

    /// The device's clock at a true time.
    fn device_ns(&self, true_ns: f64) -> u64 {
        let device_ns = true_ns * (1.0 + self.drift) + self.offset_ns;
        self.monotonic_start_ns().wrapping_add_signed(device_ns.round() as i64)
    }
}

pub(super) fn write(run: &ImaginedRun, execution: &Execution) -> Vec<Vec<u8>> {
    (0..run.plans.len()).map(|rank| of_rank(run, execution, rank)).collect()
}

fn of_rank(run: &ImaginedRun, execution: &Execution, rank: usize) -> Vec<u8> {
    let clock = run.clock(rank);
    let header = header(run, rank);
    let mut recorder = Recorder::new(Vec::new(), &header, 1 << 30).unwrap();
    recorder.plan(&run.plans[rank]).unwrap();
    recorder.call_shape(&shape(run, rank)).unwrap();
    let tracks = &execution.ends[rank];
    for number in 1..=run.calls {
        let begin = tracks[0].iter().filter(|end| end.message == number);
        let enqueue_ns = clock.monotonic_ns(begin.map(|end| end.time_ns).fold(f64::MAX, f64::min));
        let launch = LaunchKind::Stream;
        let shape = run.plans[rank].id;
        recorder.call(Call { number: number.into(), shape, launch, enqueue_ns }).unwrap();
    }
    for (track, ends) in (0..).zip(tracks) {
        let records = ends.iter().map(|end| {
            let time_ns = clock.device_ns(end.time_ns);
            Record { time_ns, kind: end.kind, step: end.step, message: end.message }.pack()
        });
        recorder.records(track, 0, &records.collect::<Vec<_>>()).unwrap();
    }
    let last_ns = tracks.iter().filter_map(|ends| ends.last()).map(|end| end.time_ns);
    let last_ns = last_ns.fold(0.0, f64::max);
    for number in 0..=(last_ns / READING_NS) as u32 + 1 {
        if clock.round_trip_ns > 0.0 {
            recorder.clock(reading(&clock, f64::from(number) * READING_NS, number)).unwrap();
        }
    }
    recorder.finish().unwrap()
}

/// Some readings are much slower than the shortest, and in all of them the device is read somewhere
/// on the way.
fn reading(clock: &ImaginedClock, true_ns: f64, number: u32) -> ClockSample {
    let part = |of: u32| f64::from(number.wrapping_mul(of) % 101) / 101.0;
    let round_trip_ns = clock.round_trip_ns * (1.0 + 3.0 * part(7919));
    let before_ns = true_ns - round_trip_ns * part(104_729);
    ClockSample {
        before_ns: clock.monotonic_ns(before_ns),
        device_ns: clock.device_ns(true_ns),
        after_ns: clock.monotonic_ns(before_ns + round_trip_ns),
    }
}

fn header(run: &ImaginedRun, rank: usize) -> Header {
    let clock = run.clock(rank);
    let is_host = clock.round_trip_ns == 0.0;
    Header {
        host: format!("host{}", clock.host),
        process: 100 + rank as u32,
        rank: rank as u32,
        ranks: run.plans.len() as u32,
        communicator: "imagined".to_owned(),
        name: String::new(),
        engine: match is_host {
            true => Engine::Host,
            false => Engine::Gpu {
                name: "GPU".to_owned(),
                bus_id: clock.gpu.map(|of| of.to_string()).unwrap_or_default(),
            },
        },
        start: Moment {
            unix_ns: START_UNIX_NS.wrapping_add_signed(clock.host_error_ns as i64),
            monotonic_ns: clock.monotonic_start_ns(),
        },
    }
}

fn shape(run: &ImaginedRun, rank: usize) -> CallShapeDescription {
    let plan = &run.plans[rank];
    let kernel = KernelDescription {
        kind: "interpreter".to_owned(),
        protocol: "Simple".to_owned(),
        delivery: "staged".to_owned(),
        threads: 512,
    };
    CallShapeDescription {
        id: plan.id,
        collective: "allreduce".to_owned(),
        data_type: "f32".to_owned(),
        reduction: Some("sum".to_owned()),
        count: run.bytes / 4,
        bytes: run.bytes,
        placement: "out of place".to_owned(),
        reason: "it was imagined".to_owned(),
        work: Work::Plan { plan: plan.id, kernel, cut: run.cut },
    }
}

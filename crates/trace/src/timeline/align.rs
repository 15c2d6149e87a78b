//! Brings the times of all ranks to one clock.

use std::collections::BTreeMap;
use std::ops::Range;

use super::devices::Devices;
use super::join::epoch_ns;
use super::{
    ClockSummary, RankLaunch, RankTimeline, Span, SpanRef, Timeline, TrackSummary, host_times,
};
use crate::clock::{
    Constraint, ConstraintOrigin, DeviceClock, Reading, Tightened, UnevenClock, shortest_of,
    tighten,
};
use crate::recording::{
    CallShapeDescription, ClockSample, Engine, Moment, NAMED_TRACKS, PeerClockSample, Recording,
    TrackClock,
};

/// What is known of the clock of a rank.
pub(super) struct RankReadings {
    /// The time of the device from which times of its spans count.
    epoch_ns: u64,
    /// How far times by the host's clock were moved.
    ahead_ns: u64,
    clock: Vec<ClockSample>,
    peer_clocks: Vec<PeerClockSample>,
}

/// A bound of the difference of the UNIX times of two hosts, if nothing better is known.
const HOSTS_ERROR_NS: f64 = 100e6;

/// A bound of the error of a GPU's clock that was not read, taken for UNIX time.
const UNREAD_ERROR_NS: f64 = 1e9;

impl RankReadings {
    pub fn of(recording: &Recording) -> Self {
        let Recording { clock, peer_clocks, .. } = recording;
        let (clock, peer_clocks) = (clock.clone(), peer_clocks.clone());
        let (epoch_ns, ahead_ns) = (epoch_ns(recording), host_times::ahead_ns(recording));
        Self { epoch_ns, ahead_ns, clock, peer_clocks }
    }
}

/// Brings all times of `timeline` to UNIX time from its origin, which is the start of the first
/// recording.
pub(super) fn align(timeline: &mut Timeline, readings: &[RankReadings]) {
    let hosts = Hosts::of(timeline);
    timeline.origin_unix_ns = hosts.origin_unix_ns();
    let devices = Devices::of(&timeline.ranks);
    let mut without_readings = Vec::new();
    for ranks in &devices.ranks {
        let Some(&first) = ranks.first() else { continue };
        let host = hosts.clock(hosts.of_rank[first]);
        let fitted = device_clock(timeline, ranks, readings, host);
        if fitted.is_none() {
            without_readings.extend(ranks.iter().map(|rank| timeline.ranks[*rank].header.rank));
        }
        for &rank in ranks {
            let of_rank = &readings[rank];
            let clock = match &fitted {
                Some(fitted) => fitted.of_times_from(of_rank.epoch_ns),
                None => UnevenClock::even(unread(of_rank, timeline.origin_unix_ns)),
            };
            timeline.ranks[rank].clock = clock.line;
            let of_host = host.of_times_from(of_rank.epoch_ns.wrapping_sub(of_rank.ahead_ns));
            shift(timeline, rank, |of_track, time_ns| match of_track {
                TrackClock::Records => clock.host_ns(time_ns),
                TrackClock::Host => of_host.host_ns(time_ns),
            });
        }
    }
    let mut constraints = reading_constraints(timeline, readings, &hosts);
    constraints.extend(devices.constraints());
    constraints.extend(message_constraints(timeline));
    let clocks = timeline.ranks.len() + hosts.starts.len();
    let Tightened { mut corrections_ns, mut errors_ns, contradictions } =
        tighten(clocks, &constraints);
    corrections_ns.truncate(timeline.ranks.len());
    errors_ns.truncate(timeline.ranks.len());
    let corrections = corrections_ns.iter().enumerate();
    for (rank, correction_ns) in corrections.filter(|(_, correction_ns)| **correction_ns != 0.0) {
        shift(timeline, rank, |_, time_ns| time_ns + correction_ns);
    }
    timeline.clock = ClockSummary { errors_ns, corrections_ns, contradictions, without_readings };
    time_launches(timeline);
}

/// The hosts of the ranks.
struct Hosts {
    /// By rank.
    of_rank: Vec<usize>,
    /// By host: a moment by its clocks, of the first rank.
    starts: Vec<Moment>,
}

impl Hosts {
    fn of(timeline: &Timeline) -> Self {
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let (mut of_rank, mut starts) = (Vec::new(), Vec::new());
        for rank in &timeline.ranks {
            let host = *known.entry(&rank.header.host).or_insert(starts.len());
            if host == starts.len() {
                starts.push(rank.header.start);
            }
            of_rank.push(host);
        }
        Self { of_rank, starts }
    }

    /// The origin of the timeline.
    fn origin_unix_ns(&self) -> u64 {
        self.starts[0].unix_ns
    }

    /// The clock of a host.
    fn clock(&self, host: usize) -> HostClock {
        HostClock { start: self.starts[host], origin_unix_ns: self.origin_unix_ns() }
    }
}

/// The clock of a host.
#[derive(Clone, Copy)]
struct HostClock {
    /// A moment by its clocks.
    start: Moment,
    /// The origin of the timeline.
    origin_unix_ns: u64,
}

impl HostClock {
    /// What `CLOCK_MONOTONIC` says, in ns since the origin.
    fn ns(&self, monotonic_ns: u64) -> f64 {
        difference(monotonic_ns, self.start.monotonic_ns)
            + difference(self.start.unix_ns, self.origin_unix_ns)
    }

    /// Of times that count from such a time.
    fn of_times_from(&self, monotonic_ns: u64) -> DeviceClock {
        DeviceClock { offset_ns: self.ns(monotonic_ns), ..DeviceClock::same() }
    }
}

/// The clock of a device, from times that count from `epoch_ns` to ns since the origin.
struct FittedClock {
    epoch_ns: u64,
    clock: UnevenClock,
}

impl FittedClock {
    /// The same from times that count from another time.
    fn of_times_from(&self, epoch_ns: u64) -> UnevenClock {
        self.clock.of_times_from(difference(epoch_ns, self.epoch_ns))
    }
}

/// The clock of the device that `ranks` share, if it was read. Of host threads it is the host's.
fn device_clock(
    timeline: &Timeline,
    ranks: &[usize],
    readings: &[RankReadings],
    host: HostClock,
) -> Option<FittedClock> {
    let epoch_ns = ranks.iter().map(|rank| readings[*rank].epoch_ns).min()?;
    let is_host = |rank: &usize| timeline.ranks[*rank].header.engine == Engine::Host;
    if ranks.iter().any(is_host) {
        let clock = UnevenClock::even(host.of_times_from(epoch_ns));
        return Some(FittedClock { epoch_ns, clock });
    }
    let reading = |sample: &ClockSample| Reading {
        before_ns: host.ns(sample.before_ns),
        device_ns: difference(sample.device_ns, epoch_ns),
        after_ns: host.ns(sample.after_ns),
    };
    let all = || ranks.iter().map(|rank| &readings[*rank].clock);
    let mut known: Vec<_> = all().flatten().map(reading).collect();
    if ranks.len() > 1 {
        // Ranks read the clock in turns, of each of which the shortest counts.
        known = shortest_of(&known, all().map(Vec::len).max().unwrap_or(0));
    }
    let ends = ranks.iter().flat_map(|rank| {
        let since_ns = difference(readings[*rank].epoch_ns, epoch_ns);
        timeline.ranks[*rank].parts.iter().map(move |part| since_ns + part.end_ns)
    });
    let times_ns = [0.0, ends.fold(0.0, f64::max)];
    let clock = UnevenClock::through(&known, times_ns)?;
    Some(FittedClock { epoch_ns, clock })
}

/// The clock of a GPU that was not read: drivers set it to UNIX time.
fn unread(of_rank: &RankReadings, origin_unix_ns: u64) -> DeviceClock {
    let offset_ns = difference(of_rank.epoch_ns, origin_unix_ns);
    DeviceClock { offset_ns, drift: 0.0, error_ns: UNREAD_ERROR_NS }
}

fn difference(one: u64, other: u64) -> f64 {
    (i128::from(one) - i128::from(other)) as f64
}

/// What readings bound: each rank against its host, each host against the first and against those
/// whose clock it has read. Hosts are clocks behind the ranks.
fn reading_constraints(
    timeline: &Timeline,
    readings: &[RankReadings],
    hosts: &Hosts,
) -> Vec<Constraint> {
    let ranks = timeline.ranks.len();
    let mut constraints = Vec::new();
    let mut bound = |one: usize, other: usize, [least_ns, most_ns]: [f64; 2]| {
        let origin = ConstraintOrigin::Reading;
        constraints.push(Constraint { ahead: one, behind: other, slack_ns: most_ns, origin });
        constraints.push(Constraint { ahead: other, behind: one, slack_ns: -least_ns, origin });
    };
    for (rank, of_rank) in timeline.ranks.iter().enumerate() {
        let error_ns = of_rank.clock.error_ns;
        bound(rank, ranks + hosts.of_rank[rank], [-error_ns, error_ns]);
    }
    for host in 1..hosts.starts.len() {
        bound(ranks + host, ranks, [-HOSTS_ERROR_NS, HOSTS_ERROR_NS]);
    }
    for (rank, of_rank) in readings.iter().enumerate() {
        for sample in &of_rank.peer_clocks {
            let is_peer = |of: &super::RankTimeline| of.header.rank == sample.peer;
            let Some(peer) = timeline.ranks.iter().position(is_peer) else { continue };
            let (own, other) = (hosts.of_rank[rank], hosts.of_rank[peer]);
            let peer_ns = hosts.clock(other).ns(sample.peer_ns);
            let span = [sample.before_ns, sample.after_ns].map(|of| hosts.clock(own).ns(of));
            if own != other {
                bound(ranks + other, ranks + own, span.map(|own_ns| own_ns - peer_ns));
            }
        }
    }
    constraints
}

/// The tightest of the messages of each pair of ranks: what is received has been sent. Messages
/// move while they are sent, so that the begin of the sender's move counts.
fn message_constraints(timeline: &Timeline) -> Vec<Constraint> {
    let mut tightest: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    let sends: Vec<EarliestSends> = timeline.ranks.iter().map(EarliestSends::of).collect();
    // What has no bytes may leave no packet, and then nobody waits for it.
    for message in timeline.messages.iter().filter(|message| message.bytes > 0) {
        let received = message.wait.unwrap_or(message.receive);
        let SpanRef { rank, span } = message.send;
        let sent_ns = sends[rank as usize].ns(&timeline.ranks[rank as usize], span as usize);
        let slack_ns = timeline.span(received).end_ns - sent_ns;
        let known = tightest.entry((message.send.rank, received.rank)).or_insert(f64::MAX);
        *known = known.min(slack_ns);
    }
    let constraint = |((sender, receiver), slack_ns): ((u32, u32), f64)| Constraint {
        ahead: sender as usize,
        behind: receiver as usize,
        slack_ns,
        origin: ConstraintOrigin::Message,
    };
    tightest.into_iter().map(constraint).collect()
}

/// When what spans of a rank send can be received at the earliest. Where links deliver directly, a
/// peer may load from the buffers of a thread block as soon as that has begun; elsewhere as soon as
/// the span has.
struct EarliestSends {
    /// The spans of launches that deliver directly, in order, and when these begin.
    direct: Vec<(Range<usize>, f64)>,
}

impl EarliestSends {
    fn of(rank: &RankTimeline) -> Self {
        let delivers_directly = |launch: &&RankLaunch| {
            rank.shape(launch).is_some_and(CallShapeDescription::delivers_directly)
        };
        let direct = rank.launches.iter().filter(delivers_directly);
        Self { direct: direct.map(|launch| (rank.spans_of(launch), launch.begin_ns)).collect() }
    }

    fn ns(&self, rank: &RankTimeline, span: usize) -> f64 {
        let at = self.direct.partition_point(|(spans, _)| spans.end <= span);
        let direct = self.direct.get(at).filter(|(spans, _)| spans.contains(&span));
        direct.map_or(rank.spans[span].begin_ns, |(_, begin_ns)| *begin_ns)
    }
}

/// Brings all times of a rank to another clock, as it depends on whose time a track has.
fn shift(timeline: &mut Timeline, rank: usize, clock: impl Fn(TrackClock, f64) -> f64) {
    let rank = &mut timeline.ranks[rank];
    for part in &mut rank.parts {
        let of_track = track_clock(&rank.tracks, part.track);
        let clock = |time_ns| clock(of_track, time_ns);
        for Span { begin_ns, end_ns, .. } in &mut rank.spans[part.spans.clone()] {
            (*begin_ns, *end_ns) = (clock(*begin_ns), clock(*end_ns));
        }
        (part.begin_ns, part.end_ns) = (clock(part.begin_ns), clock(part.end_ns));
    }
    let clock = |time_ns| clock(TrackClock::Records, time_ns);
    for launch in &mut rank.launches {
        (launch.begin_ns, launch.end_ns) = (clock(launch.begin_ns), clock(launch.end_ns));
    }
}

/// Whose time the records of track number `track` have, of `tracks` in order.
fn track_clock(tracks: &[TrackSummary], track: u32) -> TrackClock {
    if track < NAMED_TRACKS {
        return TrackClock::Records;
    }
    let found = tracks.binary_search_by_key(&track, |of| of.track).ok();
    let named = found.and_then(|at| tracks[at].named.as_ref());
    named.map_or(TrackClock::Records, |named| named.clock)
}

/// Begins and ends of launches, and their order.
fn time_launches(timeline: &mut Timeline) {
    let ranks = &timeline.ranks;
    for launch in &mut timeline.launches {
        let of_rank = launch.of_rank.iter().enumerate();
        let known = of_rank.filter_map(|(rank, number)| ranks[rank].launches.get((*number)?));
        let (mut begin_ns, mut end_ns) = (f64::MAX, f64::MIN);
        for of_rank in known {
            begin_ns = begin_ns.min(of_rank.begin_ns);
            end_ns = end_ns.max(of_rank.end_ns);
        }
        (launch.begin_ns, launch.end_ns) = (begin_ns, end_ns);
    }
    timeline.launches.sort_by(|one, other| one.begin_ns.total_cmp(&other.begin_ns));
}

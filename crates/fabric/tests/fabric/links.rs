//! Ring buffers between threads; `processes` has them between processes.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_fabric::{
    Abort, Doorbell, ErrorKind, Receiver, RingBufferShape, RingBuffers, Sender, SharedMemory,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const SHAPE: RingBufferShape = RingBufferShape { depth: 4, slot_bytes: 100 };

/// A second view of `ring_buffers`, as another process would have it.
fn opened(ring_buffers: &RingBuffers) -> RingBuffers {
    RingBuffers::open(ring_buffers.descriptor().unwrap().try_clone_to_owned().unwrap()).unwrap()
}

fn ends(shape: RingBufferShape) -> (Sender, Receiver) {
    let ring_buffers = RingBuffers::create(&[shape]).unwrap();
    (ring_buffers.sender(0).unwrap(), opened(&ring_buffers).receiver(0).unwrap())
}

/// Message number `number`: its length and its bytes follow from the number.
pub fn sample(number: u64, slot_bytes: usize) -> Vec<u8> {
    let length = (number as usize * 31) % (slot_bytes + 1);
    (0..length).map(|i| (number as usize * 7 + i) as u8).collect()
}

pub fn send_samples(sender: &mut Sender, count: u64) {
    let slot_bytes = sender.shape().slot_bytes;
    for number in sender.sent()..sender.sent() + count {
        let message = sample(number, slot_bytes);
        let mut slot = sender.reserve(&Abort::new(), Some(Duration::from_secs(20))).unwrap();
        slot.bytes()[..message.len()].copy_from_slice(&message);
        slot.commit(message.len());
    }
}

pub fn check_samples(receiver: &mut Receiver, count: u64) {
    let slot_bytes = receiver.shape().slot_bytes;
    for number in receiver.taken()..receiver.taken() + count {
        let message = receiver.peek(&Abort::new(), Some(Duration::from_secs(20))).unwrap();
        assert_eq!(message.bytes(), sample(number, slot_bytes), "message {number}");
        message.release();
    }
}

#[test]
fn a_ring_buffer_is_bounded_and_in_order() {
    let (mut sender, mut receiver) = ends(SHAPE);
    assert!(receiver.try_peek().is_none());
    send_samples(&mut sender, 4);
    assert!(sender.try_reserve().is_none());
    check_samples(&mut receiver, 3);
    send_samples(&mut sender, 3);
    check_samples(&mut receiver, 4);
    assert!(receiver.try_peek().is_none());
    assert_eq!((sender.sent(), receiver.taken()), (7, 7));
}

#[test]
fn a_slot_keeps_what_was_written_until_the_commit() {
    let (mut sender, mut receiver) = ends(SHAPE);
    sender.try_reserve().unwrap().bytes()[..3].copy_from_slice(b"abc");
    assert!(receiver.try_peek().is_none());
    let mut slot = sender.try_reserve().unwrap();
    assert_eq!(slot.bytes().len(), 100);
    assert_eq!(&slot.bytes()[..3], b"abc");
    slot.commit(1000);
    assert_eq!(receiver.try_peek().unwrap().bytes().len(), 100);
    assert_eq!(&receiver.try_peek().unwrap().bytes()[..3], b"abc");
}

#[test]
fn threads_exchange_many_messages() {
    for shape in [
        RingBufferShape { depth: 1, slot_bytes: 0 },
        SHAPE,
        RingBufferShape { depth: 3, slot_bytes: 4096 },
    ] {
        let (mut sender, mut receiver) = ends(shape);
        thread::scope(|scope| {
            scope.spawn(|| send_samples(&mut sender, 20_000));
            check_samples(&mut receiver, 20_000);
        });
    }
}

#[test]
fn ring_buffers_of_one_memory_are_independent() {
    let shapes = [
        SHAPE,
        RingBufferShape { depth: 1, slot_bytes: 1 },
        RingBufferShape { depth: 9, slot_bytes: 500 },
    ];
    let ring_buffers = RingBuffers::create(&shapes).unwrap();
    let other = opened(&ring_buffers);
    assert_eq!((other.count(), other.shape(1), other.shape(3)), (3, Some(shapes[1]), None));
    thread::scope(|scope| {
        for index in 0..3 {
            let (mut sender, mut receiver) =
                (ring_buffers.sender(index).unwrap(), other.receiver(index).unwrap());
            scope.spawn(move || send_samples(&mut sender, 2000));
            scope.spawn(move || check_samples(&mut receiver, 2000));
        }
    });
}

#[test]
fn an_end_has_one_owner_at_a_time_and_goes_on_where_it_stopped() {
    let ring_buffers = RingBuffers::create(&[SHAPE]).unwrap();
    let mut sender = ring_buffers.sender(0).unwrap();
    let refused = opened(&ring_buffers).sender(0).err().unwrap();
    assert_eq!(refused.to_string(), "the sending end of ring buffer 0 is taken already");
    send_samples(&mut sender, 2);
    drop(sender);
    let mut sender = opened(&ring_buffers).sender(0).unwrap();
    send_samples(&mut sender, 2);
    check_samples(&mut ring_buffers.receiver(0).unwrap(), 1);
    check_samples(&mut ring_buffers.receiver(0).unwrap(), 3);
    assert_eq!(ring_buffers.sender(1).err().unwrap().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn waits_end_by_time_abort_and_stop() {
    let (mut sender, mut receiver) = ends(SHAPE);
    let soon = Some(Duration::from_millis(30));
    let error = receiver.peek(&Abort::new(), soon).err().unwrap();
    let text = "no message in ring buffer 0 (0 messages sent, 0 taken): not within 0.03 s";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::TimedOut, text));
    send_samples(&mut sender, 4);
    let abort = Abort::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            abort.raise("enough");
        });
        let error = sender.reserve(&abort, None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted);
        assert!(
            error.to_string().starts_with("no room in ring buffer 0 (4 messages sent, 0 taken)")
        );
    });
    let ring_buffers = RingBuffers::create(&[SHAPE]).unwrap();
    let mut receiver = opened(&ring_buffers).receiver(0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            ring_buffers.stop();
        });
        let error = receiver.peek(&Abort::new(), None).err().unwrap();
        assert!(error.to_string().ends_with("another rank stopped the ring buffers"), "{error}");
    });
    assert!(ring_buffers.is_stopped());
}

#[test]
fn impossible_shapes_and_foreign_memory_are_refused() {
    let refused =
        |depth, slot_bytes| RingBuffers::create(&[RingBufferShape { depth, slot_bytes }]).is_err();
    assert!(refused(0, 8) && refused(4, usize::MAX / 4) && refused(u32::MAX, usize::MAX));
    let check = |bytes: usize, words: &[(usize, u64)], expected: &str| {
        let memory = SharedMemory::create(bytes).unwrap();
        for (offset, value) in words {
            memory.word(*offset).unwrap().store(*value, std::sync::atomic::Ordering::Relaxed);
        }
        let error = RingBuffers::open(memory.descriptor().unwrap().try_clone_to_owned().unwrap())
            .unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    let magic = u64::from_le_bytes(*b"msccl-r1");
    check(4, &[], "it is too short");
    check(64, &[], "it begins otherwise");
    check(64, &[(0, magic), (8, 1)], "it is too short");
    check(64, &[(0, magic), (8, 1 << 40)], "it lists too many");
    check(256, &[(0, magic), (8, 1)], "a ring buffer has an impossible shape");
    check(
        256,
        &[(0, magic), (8, 1), (136, 1), (144, 8)],
        "its size is not what its ring buffers take",
    );
}

/// The byte at `offset` of the memory of `ring_buffers`, by way of the words that it consists of.
fn byte_at(ring_buffers: &RingBuffers, offset: usize) -> u8 {
    let word = ring_buffers.memory().word(offset / 8 * 8).unwrap();
    word.load(std::sync::atomic::Ordering::Acquire).to_le_bytes()[offset % 8]
}

#[test]
fn a_carrier_reads_and_fills_ahead() {
    let ring_buffers = RingBuffers::create(&[SHAPE, SHAPE]).unwrap();
    let (mut sender, mut carried) =
        (ring_buffers.sender(0).unwrap(), ring_buffers.receiver(0).unwrap());
    send_samples(&mut sender, 3);
    assert_eq!((carried.committed(), carried.locate(0), carried.locate(4)), (3, None, None));
    let (offset, bytes) = carried.locate(3).unwrap();
    assert_eq!(bytes, sample(2, 100).len());
    assert_eq!(byte_at(&ring_buffers, offset), sample(2, 100)[0]);
    carried.release_through(2);
    assert_eq!(
        (carried.taken(), carried.locate(2), carried.locate(3)),
        (2, None, Some((offset, bytes)))
    );
    carried.release_through(1);
    carried.release_through(99);
    assert_eq!((carried.taken(), sender.released()), (3, 3));

    let (mut carrier, mut receiver) =
        (ring_buffers.sender(1).unwrap(), ring_buffers.receiver(1).unwrap());
    let places: Vec<_> = (1..=5).map(|number| carrier.slot_offset(number)).collect();
    assert_eq!(places[0], places[4]);
    let word = ring_buffers.memory().word(places[0]).unwrap();
    word.store(u64::from_le_bytes(*b"carried!"), std::sync::atomic::Ordering::Relaxed);
    assert!(carrier.commit_next(8));
    assert_eq!(receiver.try_peek().unwrap().bytes(), b"carried!");
    let more: Vec<_> = (0..4).map(|_| carrier.commit_next(0)).collect();
    assert_eq!(more, [true, true, true, false]);
}

#[test]
fn a_doorbell_wakes_whoever_sleeps_for_many_ring_buffers() {
    let ring_buffers = RingBuffers::create(&[SHAPE, SHAPE]).unwrap();
    let doorbell = Arc::new(Doorbell::new().unwrap());
    let mut ends: Vec<_> = (0..2)
        .map(|index| (ring_buffers.sender(index).unwrap(), ring_buffers.receiver(index).unwrap()))
        .collect();
    for (sender, _) in &mut ends {
        sender.attach(doorbell.clone());
    }
    let (senders, receivers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    thread::scope(|scope| {
        let (doorbell, mut receivers) = (&doorbell, receivers);
        scope.spawn(move || {
            while receivers.iter().any(|receiver| receiver.taken() < 2000) {
                doorbell.park();
                if receivers.iter().all(|receiver| receiver.committed() == receiver.taken()) {
                    let mut bell = [PollFd::new(doorbell, PollFlags::IN)];
                    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
                    assert_eq!(poll(&mut bell, Some(&patience)), Ok(1), "a change was missed");
                }
                doorbell.resume();
                for receiver in &mut receivers {
                    receiver.release_through(receiver.committed());
                }
            }
        });
        for mut sender in senders {
            scope.spawn(move || send_samples(&mut sender, 2000));
        }
    });
}

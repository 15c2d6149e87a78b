//! Rings between threads; `processes` has them between processes.

use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use msccl_fabric::{Abort, ErrorKind, Receiver, RingShape, Rings, Sender, SharedMemory};

const SHAPE: RingShape = RingShape { depth: 4, slot_bytes: 100 };

/// A second view of `rings`, as another process would have it.
fn opened(rings: &Rings) -> Rings {
    Rings::open(rings.as_fd().try_clone_to_owned().unwrap()).unwrap()
}

fn ends(shape: RingShape) -> (Sender, Receiver) {
    let rings = Rings::create(&[shape]).unwrap();
    (rings.sender(0).unwrap(), opened(&rings).receiver(0).unwrap())
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
fn a_ring_is_bounded_and_in_order() {
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
    for shape in
        [RingShape { depth: 1, slot_bytes: 0 }, SHAPE, RingShape { depth: 3, slot_bytes: 4096 }]
    {
        let (mut sender, mut receiver) = ends(shape);
        thread::scope(|scope| {
            scope.spawn(|| send_samples(&mut sender, 20_000));
            check_samples(&mut receiver, 20_000);
        });
    }
}

#[test]
fn rings_of_one_memory_are_independent() {
    let shapes =
        [SHAPE, RingShape { depth: 1, slot_bytes: 1 }, RingShape { depth: 9, slot_bytes: 500 }];
    let rings = Rings::create(&shapes).unwrap();
    let other = opened(&rings);
    assert_eq!((other.count(), other.shape(1), other.shape(3)), (3, Some(shapes[1]), None));
    thread::scope(|scope| {
        for index in 0..3 {
            let (mut sender, mut receiver) =
                (rings.sender(index).unwrap(), other.receiver(index).unwrap());
            scope.spawn(move || send_samples(&mut sender, 2000));
            scope.spawn(move || check_samples(&mut receiver, 2000));
        }
    });
}

#[test]
fn an_end_has_one_owner_at_a_time_and_goes_on_where_it_stopped() {
    let rings = Rings::create(&[SHAPE]).unwrap();
    let mut sender = rings.sender(0).unwrap();
    let refused = opened(&rings).sender(0).err().unwrap();
    assert_eq!(refused.to_string(), "the sending end of ring 0 is taken already");
    send_samples(&mut sender, 2);
    drop(sender);
    let mut sender = opened(&rings).sender(0).unwrap();
    send_samples(&mut sender, 2);
    check_samples(&mut rings.receiver(0).unwrap(), 1);
    check_samples(&mut rings.receiver(0).unwrap(), 3);
    assert_eq!(rings.sender(1).err().unwrap().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn waits_end_by_time_abort_and_stop() {
    let (mut sender, mut receiver) = ends(SHAPE);
    let soon = Some(Duration::from_millis(30));
    let error = receiver.peek(&Abort::new(), soon).err().unwrap();
    let text = "no message in ring 0 (0 messages sent, 0 taken): not within 0.03 s";
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
        assert!(error.to_string().starts_with("no room in ring 0 (4 messages sent, 0 taken)"));
    });
    let rings = Rings::create(&[SHAPE]).unwrap();
    let mut receiver = opened(&rings).receiver(0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            rings.stop();
        });
        let error = receiver.peek(&Abort::new(), None).err().unwrap();
        assert!(error.to_string().ends_with("another rank stopped the rings"), "{error}");
    });
    assert!(rings.is_stopped());
}

#[test]
fn impossible_shapes_and_foreign_memory_are_refused() {
    let refused = |depth, slot_bytes| Rings::create(&[RingShape { depth, slot_bytes }]).is_err();
    assert!(refused(0, 8) && refused(4, usize::MAX / 4) && refused(u32::MAX, usize::MAX));
    let check = |bytes: usize, words: &[(usize, u64)], expected: &str| {
        let memory = SharedMemory::create(bytes).unwrap();
        for (offset, value) in words {
            memory.word(*offset).unwrap().store(*value, std::sync::atomic::Ordering::Relaxed);
        }
        let error = Rings::open(memory.as_fd().try_clone_to_owned().unwrap()).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    let magic = u64::from_le_bytes(*b"msccl-r1");
    check(4, &[], "it is too short");
    check(64, &[], "it begins otherwise");
    check(64, &[(0, magic), (8, 1)], "it is too short");
    check(64, &[(0, magic), (8, 1 << 40)], "it lists too many");
    check(256, &[(0, magic), (8, 1)], "a ring has an impossible shape");
    check(256, &[(0, magic), (8, 1), (136, 1), (144, 8)], "its size is not what its rings take");
}

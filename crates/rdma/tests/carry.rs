//! What rails carry, through the ABI, on the rig's devices.

mod rig;

use rig::{Event, Setting, pair, pattern, rig};

#[test]
fn a_write_with_a_tag_arrives_and_is_reported() {
    let Some(_rig) = rig(2) else { return };
    let (mut near, mut far) = pair(&Setting::default(), 0, 1, 4096);
    let sent = pattern(1, 1000);
    near.memory.write(8, &sent);
    assert!(near.post(8, 100, 1000, 0xfeed_0001).unwrap());
    let peer = std::thread::spawn(move || {
        let happened = far.until(|all| !all.is_empty()).unwrap();
        (happened, far.memory.read(100, 1000), far)
    });
    assert_eq!(near.until(|all| !all.is_empty()).unwrap(), [Event::Sent]);
    let (happened, arrived, mut far) = peer.join().unwrap();
    assert_eq!(happened, [Event::Arrived { tag: 0xfeed_0001, bytes: 1000 }]);
    assert_eq!(arrived, sent);
    println!("{}\n{}", near.story(), far.story());
}

//! The least number of steps by a walk over all states that steps lead to.

use std::collections::BTreeSet;

/// Which of the GPUs are joined, in both directions: a path through all of them, and by chance so
/// many in a hundred of the others.
pub fn random_edges(gpus: usize, percent: u64, seed: u64) -> Vec<Vec<bool>> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut joined = vec![vec![false; gpus]; gpus];
    let pairs = (0..gpus).flat_map(|one| (one + 1..gpus).map(move |other| [one, other]));
    for [one, other] in pairs {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let is_joined = other == one + 1 || state % 100 < percent;
        joined[one][other] = is_joined;
        joined[other][one] = is_joined;
    }
    joined
}

/// By rank, the blocks that it has, as bits.
type State = Vec<u8>;

/// How many steps an all-gather takes where each pair sends one block in a step.
pub fn gather_steps(joined: &[Vec<bool>]) -> u32 {
    let gpus = joined.len();
    let all = (1_u8 << gpus) - 1;
    let mut states: BTreeSet<State> = [(0..gpus).map(|rank| 1 << rank).collect()].into();
    for steps in 0.. {
        if states.iter().any(|state| state.iter().all(|has| *has == all)) {
            return steps;
        }
        states = states.iter().flat_map(|state| after_a_step(state, joined)).collect();
    }
    unreachable!("a path joins all GPUs")
}

/// All that a step can lead to, in which every pair sends something if it can.
fn after_a_step(before: &State, joined: &[Vec<bool>]) -> BTreeSet<State> {
    let gpus = joined.len();
    let mut states: BTreeSet<State> = [before.clone()].into();
    for from in 0..gpus {
        for to in (0..gpus).filter(|to| joined[from][*to]) {
            let useful: Vec<u8> = (0..gpus).map(|block| 1 << block).collect();
            let useful = useful.iter().filter(|bit| before[from] & !before[to] & **bit != 0);
            let useful: Vec<u8> = useful.copied().collect();
            if useful.is_empty() {
                continue;
            }
            let sent = |state: &State, bit: &u8| {
                let mut state = state.clone();
                state[to] |= bit;
                state
            };
            states = states
                .iter()
                .flat_map(|state| useful.iter().map(move |bit| sent(state, bit)))
                .collect();
        }
    }
    states
}

// The rings of thread blocks that record, for programs that read them.
#pragma once

#include <vector>

#include "record.cuh"

namespace emulator {

// How many words rings have had before: soon they begin anew, in another turn.
constexpr msccl::u32 WORDS_BEFORE = 3 * msccl::RING_WORDS - 5;

// Makes `rings`, one for each entry of the table that follows the notice at the front of `notice`.
inline void prepare_rings(std::vector<msccl_notice>& notice, std::vector<msccl::u64>& rings) {
    rings.resize((notice.size() - 1) * msccl::RING_WORDS);
    for (size_t block = 0; block + 1 < notice.size(); ++block) {
        notice[1 + block] = {msccl::address(&rings[block * msccl::RING_WORDS]), WORDS_BEFORE};
    }
}

}  // namespace emulator

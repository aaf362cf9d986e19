// Serial: reductions and products that each thread (or the few lanes of schedule.h's split) that
// reads them does for itself.
#ifndef SINTER_SRC_STITCH_SERIAL_H_
#define SINTER_SRC_STITCH_SERIAL_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// Elements (or factors) that a thread reduces for itself, at most.
constexpr int64_t kMostSerial = 4096;

// A product with batch dims in both operands, no more than kMostSerial factors an element and 2^20
// products of factors a batch: fine-grained (FusionStitching 2019), a member of a stitch. Others
// have kernels of their own.
bool IsFineGrained(const Chain& body, const Op& matmul);

// Sets StitchLoop::serial: where an element's own reductions may be split over lanes. Not where a
// thread must own its elements: with column reductions, and where outputs share inputs' buffers.
void MarkSerial(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SERIAL_H_

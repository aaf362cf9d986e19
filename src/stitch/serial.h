// Serial: reductions and products that each reading thread (or its few lanes, see schedule.h's
// split) computes for itself.
#ifndef SINTER_SRC_STITCH_SERIAL_H_
#define SINTER_SRC_STITCH_SERIAL_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// Most elements (or factors) of a serial reduction.
constexpr int64_t kMostSerial = 4096;

// Whether a product is fine-grained (FusionStitching 2019), so that a stitched kernel may compute
// it: batch dims in both operands, at most kMostSerial factors an element and 2^20 multiply-adds a
// batch. Others have kernels of their own.
bool IsFineGrained(const Chain& body, const Op& matmul);

// Sets StitchLoop::serial: lanes may share an element's serial reductions. Not where a thread must
// own its elements: with column reductions, and where outputs share inputs' buffers.
void MarkSerial(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SERIAL_H_

// Segments: rows inside a unit. A reduction of the last axes that keeps more than the units' dims
// has several segments in a unit. Neighbouring lanes join each segment and keep its result in
// registers for later passes over the same elements (warp composition below a unit).
#ifndef SINTER_SRC_STITCH_SEGMENT_H_
#define SINTER_SRC_STITCH_SEGMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Whether reduction `op`, which is no row of `program`'s units, may be joined in segments: of 2 to
// 128 elements, a power of two; not where outputs share inputs' buffers.
bool HasSegments(const Chain& body, const StitchProgram& program, const Op& op);

// Whether element `at` of a segment reduction belongs to the segment of the current `unit` and
// `element`.
bool IsOfSegment(const Chain& body, const StitchProgram& program, const Op& reduction,
                 const Position& at, IndexVar unit, IndexVar element, IndexSpace& space);

// Lanes that join a segment where a thread takes `vector` elements at once; 0: impossible.
int SegmentLanes(const Chain& body, const StitchSchedule& schedule, const Op& op, int vector);

// Whether lanes can join every segment of the program.
bool SegmentsFit(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule);

// Serial: reductions and products that each reading thread (or its few lanes, see schedule.h's
// split) computes for itself.

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

#endif  // SINTER_SRC_STITCH_SEGMENT_H_

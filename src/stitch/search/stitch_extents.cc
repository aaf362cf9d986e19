#include "src/stitch/search/stitch_extents.h"

#include <algorithm>

#include "src/base/numbers.h"

namespace sinter {
namespace {

constexpr int kAccessBytes = 16;

}  // namespace

bool IsAlike(const Op& input, int64_t elements, int64_t units) {
  double count = 1;
  for (const Dim& dim : input.type.dims) {
    count *= dim.symbolic ? 1e9 : static_cast<double>(dim.value);
  }
  return count == static_cast<double>(elements) && units > 1;
}

int64_t WorkItems(const StitchProgram& program, int64_t m) {
  if (program.owner >= 0) return program.units * (program.units_symbolic ? m : 1);
  int64_t items = 1;
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.flat) {
      if (loop.apart >= 0) continue;
      items = std::max(items, loop.elements * (loop.symbolic ? m : 1));
    }
  }
  return items;
}

int64_t FlatItems(const StitchProgram& program, const StitchSchedule& schedule, int64_t m) {
  const int64_t items = WorkItems(program, m);
  if (schedule.pixels == 1 || program.windows.reductions.empty()) return items;
  const int64_t results = program.windows.dims[2].value;
  return items / results * RoundUp(results, int64_t{schedule.pixels});
}

int64_t MainElements(const StitchProgram& program) {
  int64_t elements = 1;
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) elements = std::max(elements, loop.elements);
  }
  return elements;
}

int WidestVector(const Chain& body) {
  int64_t narrowest = 4;
  for (int i = 0; i < body.num_inputs(); ++i) {
    if (IsFloat(body.input_op(i).type.dtype)) {
      narrowest = std::min(narrowest, SizeOf(body.input_op(i).type.dtype));
    }
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    if (IsFloat(body.output_type(i).dtype)) {
      narrowest = std::min(narrowest, SizeOf(body.output_type(i).dtype));
    }
  }
  return std::min<int>(8, static_cast<int>(kAccessBytes / narrowest));
}

}  // namespace sinter

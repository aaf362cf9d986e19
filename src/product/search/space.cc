#include "src/product/search/space.h"

#include "src/product/dataflow/dataflow.h"
#include "src/product/search/space_walk.h"

namespace sinter {

void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit) {
  if (options.only != nullptr) return options.only->Visit(sequence, model, visit);
  const SpaceWalk walk(sequence, model, visit);
  for (const DataflowRow* row : AllDataflows()) {
    if (row->products != sequence.size() || row->offered > options.offered) continue;
    if (row->cooperative && !options.allow_cooperative) continue;
    row->enumerate(walk);
  }
}

}  // namespace sinter

// The analytical cost model. Every constant is a field of DeviceModel; the time line of each
// dataflow is in its file of src/product/dataflow.
#include <algorithm>

#include "src/product/dataflow/dataflow.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/search/search.h"

namespace sinter {

Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model) {
  return RowOf(schedule).predict(sequence, schedule, model);
}

Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model) {
  const double saved = std::min(model.programmatic_edge_us, prediction.fixed_us);
  prediction.fixed_us -= saved;
  prediction.total_us += prediction.out_of_step_us - saved;
  prediction.out_of_step_us = 0;
  prediction.bound = BoundOf(prediction);
  return prediction;
}

}  // namespace sinter

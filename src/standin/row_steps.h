// RowSteps: values of rows as steps of an accumulator machine (src/device/stitch/row_program.cuh).
#ifndef SINTER_SRC_STANDIN_ROW_STEPS_H_
#define SINTER_SRC_STANDIN_ROW_STEPS_H_

#include "absl/status/statusor.h"
#include "src/standin/row_values.h"

namespace sinter {

struct RowSteps {
  RowProgram program{};  // all but threads
  int slots = 0;         // in shared memory
};

// FAILED_PRECONDITION naming what there is too much of. Input i of the body is buffer i, output j
// is buffer `inputs` + j.
absl::StatusOr<RowSteps> MakeRowSteps(const RowValues& values, int inputs,
                                      const std::vector<DType>& output_types);

}  // namespace sinter

#endif  // SINTER_SRC_STANDIN_ROW_STEPS_H_

// LtProduct: one product through cuBLASLt, with the algorithms that its heuristics offer.
#pragma once

#include "src/base/ports.h"
#include "src/chain/choices.h"
#include "tests/bench/cublaslt_api.h"

namespace sinter::bench {

// d[m, n] = epilogue(x[m, k] w), row-major, f32 accumulation; w is [n, k] (oi) or [k, n] (io).
struct LtShape {
  int64_t m = 0, n = 0, k = 0;
  Layout layout = Layout::kOI;
  DType dtype = DType::kBF16;
  uint32_t epilogue = kLtEpilogueNone;
  DevicePtr bias = 0;
};

// What all products of a process share. Immutable.
struct LtContext {
  std::shared_ptr<const CublasLt> api;
  LtHandle handle = nullptr;
  DevicePtr workspace = 0;
  uint64_t workspace_bytes = 0;
};

// Thread-compatible. Calls need a current device context: make and run it inside a Measurer's
// callback.
class LtProduct {
 public:
  // NOT_FOUND when the heuristics offer nothing for this shape and epilogue.
  static absl::StatusOr<std::shared_ptr<LtProduct>> Make(const LtContext& context,
                                                         const LtShape& shape, int algorithms);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  int algorithms() const { return static_cast<int>(algorithms_.size()); }
  absl::Status Enqueue(StreamHandle stream, int algorithm, DevicePtr x, DevicePtr w,
                       DevicePtr d) const;

 private:
  explicit LtProduct(LtContext context) : context_(std::move(context)) {}
  absl::Status Describe(const LtShape& shape);
  absl::Status FindAlgorithms(int wanted);

  const LtContext context_;
  LtDesc desc_ = nullptr;
  LtLayout w_ = nullptr, x_ = nullptr, d_ = nullptr;
  std::vector<LtHeuristic> algorithms_;
};

}  // namespace sinter::bench

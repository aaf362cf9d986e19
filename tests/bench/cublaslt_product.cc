#include "tests/bench/cublaslt_product.h"

namespace sinter::bench {
namespace {

constexpr int32_t kNoTranspose = 0, kTranspose = 1;

const void* Address(DevicePtr p) { return reinterpret_cast<const void*>(p); }

}  // namespace

absl::StatusOr<std::shared_ptr<LtProduct>> LtProduct::Make(const LtContext& context,
                                                           const LtShape& shape, int algorithms) {
  std::shared_ptr<LtProduct> product(new LtProduct(context));
  SINTER_RETURN_IF_ERROR(product->Describe(shape));
  SINTER_RETURN_IF_ERROR(product->FindAlgorithms(algorithms));
  return product;
}

LtProduct::~LtProduct() {
  const CublasLt& api = *context_.api;
  for (LtLayout layout : {w_, x_, d_}) {
    if (layout != nullptr) api.LayoutDestroy(layout);
  }
  if (desc_ != nullptr) api.DescDestroy(desc_);
}

// The library counts columns first: what is row-major here is the transposed matrix there, so
// d^T = w^T x^T, and w of layout oi is a transposed operand.
absl::Status LtProduct::Describe(const LtShape& s) {
  const CublasLt& api = *context_.api;
  const int type = s.dtype == DType::kF16 ? kLtReal16F : kLtReal16BF;
  const uint64_t m = static_cast<uint64_t>(s.m), n = static_cast<uint64_t>(s.n),
                 k = static_cast<uint64_t>(s.k);
  const bool oi = s.layout == Layout::kOI;
  SINTER_RETURN_IF_ERROR(LtCheck(api.DescCreate(&desc_, kLtCompute32F, kLtReal32F), "DescCreate"));
  const int32_t trans_w = oi ? kTranspose : kNoTranspose, trans_x = kNoTranspose;
  SINTER_RETURN_IF_ERROR(
      LtCheck(api.DescSet(desc_, kLtDescTransA, &trans_w, sizeof trans_w), "DescSet(transa)"));
  SINTER_RETURN_IF_ERROR(
      LtCheck(api.DescSet(desc_, kLtDescTransB, &trans_x, sizeof trans_x), "DescSet(transb)"));
  SINTER_RETURN_IF_ERROR(LtCheck(
      api.DescSet(desc_, kLtDescEpilogue, &s.epilogue, sizeof s.epilogue), "DescSet(epilogue)"));
  if (s.bias != 0) {
    const void* bias = Address(s.bias);
    SINTER_RETURN_IF_ERROR(
        LtCheck(api.DescSet(desc_, kLtDescBias, &bias, sizeof bias), "DescSet(bias)"));
  }
  SINTER_RETURN_IF_ERROR(LtCheck(
      api.LayoutCreate(&w_, type, oi ? k : n, oi ? n : k, oi ? s.k : s.n), "LayoutCreate(w)"));
  SINTER_RETURN_IF_ERROR(LtCheck(api.LayoutCreate(&x_, type, k, m, s.k), "LayoutCreate(x)"));
  return LtCheck(api.LayoutCreate(&d_, type, n, m, s.n), "LayoutCreate(d)");
}

absl::Status LtProduct::FindAlgorithms(int wanted) {
  const CublasLt& api = *context_.api;
  LtPreference preference = nullptr;
  SINTER_RETURN_IF_ERROR(LtCheck(api.PreferenceCreate(&preference), "PreferenceCreate"));
  const size_t bytes = context_.workspace_bytes;
  absl::Status status =
      LtCheck(api.PreferenceSet(preference, kLtPreferenceWorkspace, &bytes, sizeof bytes),
              "PreferenceSet(workspace)");
  std::vector<LtHeuristic> results(static_cast<size_t>(wanted));
  int found = 0;
  if (status.ok()) {
    status = LtCheck(api.Heuristics(context_.handle, desc_, w_, x_, d_, d_, preference, wanted,
                                    results.data(), &found),
                     "MatmulAlgoGetHeuristic");
  }
  api.PreferenceDestroy(preference);
  SINTER_RETURN_IF_ERROR(status);
  for (int i = 0; i < found; ++i) {
    if (results[static_cast<size_t>(i)].state == 0) {
      algorithms_.push_back(results[static_cast<size_t>(i)]);
    }
  }
  return algorithms_.empty() ? absl::NotFoundError("cuBLASLt offers no algorithm")
                             : absl::OkStatus();
}

absl::Status LtProduct::Enqueue(StreamHandle stream, int algorithm, DevicePtr x, DevicePtr w,
                                DevicePtr d) const {
  const float alpha = 1, beta = 0;
  void* out = reinterpret_cast<void*>(d);
  return LtCheck(context_.api->Matmul(
                     context_.handle, desc_, &alpha, Address(w), w_, Address(x), x_, &beta, out, d_,
                     out, d_, &algorithms_[static_cast<size_t>(algorithm)].algo,
                     reinterpret_cast<void*>(context_.workspace), context_.workspace_bytes, stream),
                 "cublasLtMatmul");
}

}  // namespace sinter::bench

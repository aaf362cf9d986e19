// cuBLASLt, opened at run time: only the calls that the bench makes. Types and numbers come from
// the library's ABI (cublasLt.h of CUDA 12 and 13), written out so that no toolkit is needed to
// build.
#pragma once

#include "tests/support/common.h"

namespace sinter::bench {

using LtHandle = void*;
using LtDesc = void*;
using LtLayout = void*;
using LtPreference = void*;

struct LtAlgo {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgo algo;
  size_t workspace_bytes;
  int state;  // 0: usable
  float waves;
  int reserved[4];
};

constexpr int kLtReal32F = 0, kLtReal16F = 2, kLtReal16BF = 14;
constexpr int kLtCompute32F = 68;
constexpr int kLtDescTransA = 3, kLtDescTransB = 4, kLtDescEpilogue = 7, kLtDescBias = 8;
constexpr int kLtPreferenceWorkspace = 1;
constexpr uint32_t kLtEpilogueNone = 1, kLtEpilogueRelu = 2, kLtEpilogueBias = 4,
                   kLtEpilogueGelu = 32;  // relu and gelu combine with bias; gelu is the tanh form

#define SINTER_BENCH_CUBLASLT(X)                                                              \
  X(Create, "cublasLtCreate", (LtHandle * handle))                                            \
  X(DescCreate, "cublasLtMatmulDescCreate", (LtDesc * desc, int compute, int scale))          \
  X(DescDestroy, "cublasLtMatmulDescDestroy", (LtDesc desc))                                  \
  X(DescSet, "cublasLtMatmulDescSetAttribute",                                                \
    (LtDesc desc, int attribute, const void* value, size_t bytes))                            \
  X(LayoutCreate, "cublasLtMatrixLayoutCreate",                                               \
    (LtLayout * layout, int type, uint64_t rows, uint64_t columns, int64_t ld))               \
  X(LayoutDestroy, "cublasLtMatrixLayoutDestroy", (LtLayout layout))                          \
  X(PreferenceCreate, "cublasLtMatmulPreferenceCreate", (LtPreference * preference))          \
  X(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", (LtPreference preference))          \
  X(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute",                                    \
    (LtPreference preference, int attribute, const void* value, size_t bytes))                \
  X(Heuristics, "cublasLtMatmulAlgoGetHeuristic",                                             \
    (LtHandle handle, LtDesc desc, LtLayout a, LtLayout b, LtLayout c, LtLayout d,            \
     LtPreference preference, int wanted, LtHeuristic* results, int* found))                  \
  X(Matmul, "cublasLtMatmul",                                                                 \
    (LtHandle handle, LtDesc desc, const void* alpha, const void* a, LtLayout a_layout,       \
     const void* b, LtLayout b_layout, const void* beta, const void* c, LtLayout c_layout,    \
     void* d, LtLayout d_layout, const LtAlgo* algo, void* workspace, size_t workspace_bytes, \
     void* stream))

// Immutable once opened. The library is never closed.
struct CublasLt {
#define SINTER_BENCH_FIELD(field, symbol, parameters) int(*field) parameters = nullptr;
  SINTER_BENCH_CUBLASLT(SINTER_BENCH_FIELD)
#undef SINTER_BENCH_FIELD
  size_t (*Version)() = nullptr;

  // `path`, or the usual names when it is empty. UNAVAILABLE when there is none.
  static absl::StatusOr<std::shared_ptr<const CublasLt>> Open(const std::string& path);
};

// INTERNAL naming the call and the library's status unless `result` is 0.
absl::Status LtCheck(int result, const char* call);

}  // namespace sinter::bench

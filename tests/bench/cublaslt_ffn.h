// The serving form of an FFN chain, as inference servers run it through cuBLASLt: gate and up
// merged into one product, one activation kernel, the down product; without a gate the activation
// is the first product's epilogue where the library has it. What Sinter is measured against.
#pragma once

#include "tests/bench/cases.h"
#include "tests/bench/cublaslt_product.h"
#include "tests/bench/runnable.h"

namespace sinter::bench {

// Opens the library, makes a handle and a workspace. The workspace is never freed. UNAVAILABLE
// without the library.
absl::StatusOr<LtContext> MakeLtContext(const Ports& ports, const std::string& path);

// Constants are copies of `data`'s, as often as its sets; input and output are `data`'s own. Each
// product runs the fastest of up to `algorithms` of the library's suggestions, measured alone with
// rotating weights; 1 takes the first one unmeasured.
constexpr int kLtAlgorithms = 16;
absl::StatusOr<Runnable> MakeLtFfn(const Ports& ports, const LtContext& context, const Case& c,
                                   const GraphData& data, int algorithms = kLtAlgorithms);

}  // namespace sinter::bench

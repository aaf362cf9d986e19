// Chains of a grouped product with an element-wise end that its kernel computes too.
#pragma once

#include <string>

#include "src/product/epilogue.h"
#include "tests/support/read_chain.h"

namespace sinter::testing {

struct GroupedEndCase {
  const char* name;
  const char*
      end;  // the output, computed from y, or from gate and up if W has the columns of a pair
  std::vector<LeafKind> reads;
  size_t leaves;           // inputs of the program except sums
  const char* sum = "xw";  // y, or both halves

  // x[M, k] by w[experts, columns, k] of ids[M, top], which is xw, n columns of the result. Other
  // operands: r[M, top, n], bias[experts, columns] of the ids, v[n], weight[M, top] and
  // each[experts] of the ids, one number s; all but r are spread.
  Chain Make(int experts, int top, int n, int k) const {
    const std::string of = absl::StrCat(sum, " ", end);
    const auto has = [&](const char* name) { return absl::StrContains(of, name); };
    const int columns = has("gate") ? 2 * n : n;
    const std::string slots = absl::StrCat("M,", top),
                      result = absl::StrCat("[", slots, ",", n, "]");
    std::string text = absl::Substitute("x: bf16[M,$0]; ids: s32[$1]; w: const bf16[$2,$3,$0];", k,
                                        slots, experts, columns);
    if (has("r_")) absl::StrAppend(&text, "r: bf16", result, "; r_ = f32(r);");
    if (has("bias")) {
      absl::StrAppend(&text, "b: const bf16[", experts, ",", columns,
                      "]; bias = f32(gather(b, ids));");
    }
    if (has("v_")) absl::StrAppend(&text, "v: const f32[", n, "]; v_ = spread(v, ", result, ");");
    if (has("weight")) {
      absl::StrAppend(&text, "f: f32[", slots, "]; weight = spread(reshape(f, [", slots, ",1]), ",
                      result, ");");
    }
    if (has("each")) {
      absl::StrAppend(&text, "e: const f32[", experts, "]; each = spread(reshape(gather(e, ids), [",
                      slots, ",1]), ", result, ");");
    }
    if (has("s_")) absl::StrAppend(&text, "s: f32[]; s_ = spread(s, ", result, ");");
    absl::StrAppend(&text, "xw = grouped(x, w.T, ids); y = ", sum, ";");
    if (columns > n) {
      absl::StrAppend(&text, absl::Substitute("gate = y[:, 0:$0, 0:$1]; up = y[:, 0:$0, $1:$2];",
                                              top, n, columns));
    }
    return ReadChain(absl::StrCat(text, "out ", end));
  }
};

inline const std::vector<GroupedEndCase>& GroupedEndCases() {
  using K = LeafKind;
  static const auto* const cases = new std::vector<GroupedEndCase>{
      {"tanh", "bf16(tanh(y))", {}, 0},
      {"squared relu", "bf16(max(y, 0) * max(y, 0))", {}, 0},
      {"soft cap of f32", "tanh(y * 0.05) * 20", {}, 0},
      {"clamp", "bf16(clamp(y, -0.5, 0.5))", {}, 0},
      {"silu of a biased sum times a matrix",
       "bf16(silu(y) * r_)",
       {K::kColumn, K::kMatrix},
       2,
       "xw + bias"},
      {"residual of f32", "y + r_", {K::kMatrix}, 1},
      {"weights and a residual", "bf16(y * weight + r_)", {K::kRow, K::kMatrix}, 2},
      {"a vector of all experts", "bf16(gelu_erf(y * v_))", {K::kColumn}, 1},
      {"a number of each expert", "bf16(y * each)", {K::kColumn}, 1},
      {"one number", "bf16(y * s_)", {K::kNumber}, 1},
      {"a pair with biases and limits",
       "bf16(clamp(up, -0.5, 0.5) * silu(min(gate, 0.5)))",
       {K::kColumn},
       2,
       "xw + bias"},
      {"a pair with weights and a residual",
       "bf16(tanh(gate) * up * weight + r_)",
       {K::kRow, K::kMatrix},
       2},
  };
  return *cases;
}

}  // namespace sinter::testing

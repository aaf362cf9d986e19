// Text kinds of chains that are split over the GPUs of a group.
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/problem_kinds.h"
#include "src/chain/whole_chain.h"

namespace sinter {
namespace {

const FieldSpec kRanks{"ranks", FieldType::kExtent, nullptr, "GPUs of the group, at most 8"};
const FieldSpec kResidual{"residual", FieldType::kFlag, "0", "whether r is added to the sum"};
const FieldSpec kResidualOfProduct{"residual", FieldType::kFlag, "1",
                                   "whether r is added to the sum"};
const FieldSpec kNorm{"norm", FieldType::kName, "rms", "of what the sum gives", "none rms"};
const FieldSpec kLayout{"layout", FieldType::kName, kDefaultLayout.text,
                        "of the weights: oi is [out, in], io is [in, out]", "oi io"};
const FieldSpec kDType{"dtype", FieldType::kName, "bf16", "of inputs, messages and outputs",
                       "f32 f16 bf16"};

const FieldSpec kAlong{"along", FieldType::kName, "cols", "what each rank has a part of",
                       "cols rows"};

// Choices were checked: the fallbacks below are never used.
DType DTypeOf(const FieldValues& v) { return ParseDType(v.Name("dtype")).value_or(DType::kBF16); }

// x summed over ranks, and r of `columns` columns where the chain has one; rounded.
ValueId SumWithResidual(WholeChain& c, const FieldValues& v, ValueId x, ValueId r) {
  const ValueId sum = c.Take(c.b().AllReduce(x, static_cast<int32_t>(v.Extent("ranks"))));
  if (r == kNoValue) return sum;
  return c.Take(c.b().Cast(c.Binary(BinaryKind::kAdd, c.Widen(sum), r), DTypeOf(v)));
}

absl::StatusOr<Chain> MakeAllReduce(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId x = c.Rows("x", v.Extent("cols"));
  const ValueId r = v.Flag("residual") ? c.Rows("r", v.Extent("cols")) : kNoValue;
  c.Output(SumWithResidual(c, v, x, r));
  return c.Finish();
}

absl::StatusOr<Chain> MakeRowParallel(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t n = v.Extent("n"), k = v.Extent("k");
  const bool oi = v.Name("layout") == NameOf(Layout::kOI), rms = v.Name("norm") == "rms";
  const ValueId a = c.Rows("a", k);
  const ValueId w = c.Constant("w1", oi ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n});
  const ValueId r = v.Flag("residual") ? c.Rows("r", n) : kNoValue;
  const ValueId gamma = c.Constant("gamma", {n}, rms);
  const ValueId product = c.Take(c.b().Matmul(a, w, false, oi));
  const ValueId h = SumWithResidual(c, v, c.Take(c.b().Cast(product, DTypeOf(v))), r);
  c.Output(h);
  if (!rms) return c.Finish();
  return c.Finish(AddRmsNorm(c.b(), h, v.Number("eps"), gamma));
}

// M is one number on all ranks: rows of theirs are told apart by an axis in front of them.
absl::StatusOr<Chain> MakeAllGather(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const auto ranks = static_cast<int32_t>(v.Extent("ranks"));
  const Dim cols = Dim::Constant(v.Extent("cols"));
  const bool of_rows = v.Name("along") == "rows";
  ValueId x = c.Rows("x", cols.value);
  if (of_rows) x = c.Take(c.b().Reshape(x, {Dim::Constant(1), Dim::M(), cols}));
  c.Output(c.Take(c.b().AllGather(x, of_rows ? 0 : 1, ranks)));
  return c.Finish();
}

absl::StatusOr<Chain> MakeReduceScatter(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const auto ranks = static_cast<int32_t>(v.Extent("ranks"));
  const Dim cols = Dim::Constant(v.Extent("cols"));
  if (v.Name("along") == "cols") {
    c.Output(c.Take(c.b().ReduceScatter(c.Rows("x", cols.value), 1, ranks)));
    return c.Finish();
  }
  const ValueId x = c.Input("x", {DTypeOf(v), {Dim::Constant(ranks), Dim::M(), cols}});
  const ValueId part = c.Take(c.b().ReduceScatter(x, 0, ranks));
  c.Output(c.Take(c.b().Reshape(part, {Dim::M(), cols})));
  return c.Finish();
}

}  // namespace

KindSpec AllGatherKind() {
  return {"all_gather",
          {kRows, kCols, kRanks, kAlong, kDType},
          MakeAllGather,
          "what the GPUs of the group have of x: [rows,ranks*cols], of rows [ranks,rows,cols]",
          "x[rows,cols]"};
}

KindSpec ReduceScatterKind() {
  return {"reduce_scatter",
          {kRows, kCols, kRanks, kAlong, kDType},
          MakeReduceScatter,
          "this GPU's part of the sum of x over the group: [rows,cols/ranks], of rows [rows,cols]",
          "x[rows,cols], with along=rows x[ranks,rows,cols]"};
}

KindSpec AllReduceKind() {
  return {"all_reduce",
          {kRows, kCols, kRanks, kResidual, kDType},
          MakeAllReduce,
          "the sum of x over the GPUs of a group, and r with residual=1",
          "x[rows,cols], with residual=1 r[rows,cols]"};
}

KindSpec RowParallelKind() {
  return {"row_parallel",
          {kM, kN, kK, kRanks, kResidualOfProduct, kNorm, kRmsEps, kLayout, kDType},
          MakeRowParallel,
          "h, the sum of a w1 over the GPUs of a group and r, then the RMS norm of h",
          "a[m,k] w1*[n,k], with residual=1 r[m,n], with norm=rms gamma*[n]"};
}

}  // namespace sinter

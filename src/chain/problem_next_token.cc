// The kind of problems that draws tokens from logits.
#include "src/chain/composites_next_token.h"
#include "src/chain/expander.h"
#include "src/chain/problem_kinds.h"

namespace sinter {
namespace {

absl::StatusOr<Chain> MakeNextToken(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  NextTokenOperands in;
  in.logits = c.Rows("x", v.Extent("cols"));
  const auto of_rows = [&](const char* name, DType dtype) {
    return v.Flag(name) ? c.Input(name, {dtype, {Dim::M()}}) : kNoValue;
  };
  in.temperature = of_rows("temperature", DType::kF32);
  in.k = of_rows("k", DType::kS32);
  in.top_p = of_rows("top_p", DType::kF32);
  in.min_p = of_rows("min_p", DType::kF32);
  const TensorType stream{DType::kS64,
                          v.Flag("seeds") ? std::vector<Dim>{Dim::M()} : std::vector<Dim>()};
  in.seed = c.Input("seed", stream);
  in.offset = c.Input("offset", stream);
  NextTokenOptions options;
  options.count = v.Extent("count");
  options.log_probability = v.Flag("logprob");
  const absl::StatusOr<NextToken> drawn = AddNextToken(c.b(), in, options);
  if (!drawn.ok()) c.Fail(drawn.status());
  if (drawn.ok()) c.Output(drawn->token);
  if (drawn.ok() && options.log_probability) c.Output(drawn->log_probability);
  return c.Finish();
}

const FieldSpec kCount{"count", FieldType::kCount, "0",
                       "the largest columns that are drawn from, at most 64; 0: all"};
const FieldSpec kTemperature{"temperature", FieldType::kFlag, "0",
                             "whether rows have one; else it is 1"};
const FieldSpec kOwnK{"k", FieldType::kFlag, "0", "whether rows have a count of their own"};
const FieldSpec kTopP{"top_p", FieldType::kFlag, "0",
                      "whether rows have a share of probability that is drawn from"};
const FieldSpec kMinP{"min_p", FieldType::kFlag, "0",
                      "whether rows have a least share of the largest probability"};
const FieldSpec kSeeds{"seeds", FieldType::kFlag, "0",
                       "whether rows have a seed and an offset; else all share one of each"};
const FieldSpec kLogprob{"logprob", FieldType::kFlag, "0",
                         "whether the token's log probability is an output too"};

}  // namespace

std::vector<KindSpec> NextTokenKinds() {
  return {
      {"next_token",
       {kRows, kCols, kCount, kTemperature, kOwnK, kTopP, kMinP, kSeeds, kLogprob, kDType},
       MakeNextToken,
       "a token drawn from softmax(x / temperature), s32, from the k largest and of these by top_p "
       "and min_p; -1 for a row with NaN",
       "x[rows,cols], as flags say temperature[rows] k[rows] of s32, top_p[rows] min_p[rows], then "
       "seed[] offset[] of s64, [rows] as seeds says; the others f32"},
  };
}

}  // namespace sinter

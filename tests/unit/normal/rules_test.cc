// What the rules make of single chains, and what they leave alone.
#include "src/normal/rules.h"

#include "src/base/refusal.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter {
namespace {

using FormPtr = std::shared_ptr<const NormalForm>;

FormPtr Normal(Chain chain) {
  return Got(NormalFormOf(std::make_shared<const Chain>(std::move(chain))));
}
int Count(const Chain& chain, OpKind kind) {
  int count = 0;
  for (const Op& op : chain.ops()) count += op.kind == kind;
  return count;
}

TEST(NormalForm, OfChainsThatPlanIsTheChainItself) {
  for (const char* text : {"gated_ffn m=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16",
                           "gated_ffn m=8 n=64 k=64 l=64 act=gelu_tanh layout=io dtype=f16"}) {
    const auto chain = std::make_shared<const Chain>(Got(ParseProblem(text)).chain);
    const FormPtr form = *NormalFormOf(chain);
    EXPECT_FALSE(form->changed()) << text;
    EXPECT_EQ(form->chain, chain);
    for (size_t i = 0; i < form->buffers.size(); ++i) {
      EXPECT_EQ(form->buffers[i], (BufferView{static_cast<int>(i), 0}));
    }
    EXPECT_TRUE(form->notes.empty());
  }
}

// A form in one line: the ops of its chain, where its inputs lie in the caller's buffers, its
// notes.
std::string InFull(const NormalForm& form) {
  if (!form.changed()) return "unchanged";
  std::vector<std::string> parts;
  const auto add = [&](const auto&... pieces) { absl::StrAppend(&parts.back(), pieces...); };
  for (size_t i = 0; i < form.chain->ops().size(); ++i) {
    const Op& op = form.chain->ops()[i];
    parts.push_back(absl::StrCat(i, " ", NameOf(op)));
    if (op.kind == OpKind::kReduce) add(" ", NameOf(op.reduce));
    if (op.kind == OpKind::kScalar) add(" ", op.scalar);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      add(" ", op.operands[k], (k == 0 ? op.transpose_a : op.transpose_b) ? ".T" : "");
    }
    if (op.kind == OpKind::kGather || op.kind == OpKind::kConcat) add(" axis ", op.axis);
    if (!op.axes.empty()) add(" axes ", absl::StrJoin(op.axes, ","));
    if (op.kind == OpKind::kConv2d) add(" groups ", op.conv.groups, " ", NameOf(op.conv.filter));
    if (op.strides != ContiguousStrides(op.type.dims)) {
      for (const Stride& stride : op.strides) add(" stride ", stride.value);
    }
    if (op.kind == OpKind::kInput) {
      const BufferView& view = form.buffers[static_cast<size_t>(op.input)];
      add(" #", view.buffer);
      if (view.offset_bytes != 0) add(" from byte ", view.offset_bytes);
    }
    add(" ", ToString(op.type));
  }
  for (const ChainOutput& output : form.chain->outputs()) {
    parts.push_back(absl::StrCat("out ", output.value));
    if (output.alias_input >= 0) add(" over input ", output.alias_input);
  }
  parts.insert(parts.end(), form.notes.begin(), form.notes.end());
  return absl::StrJoin(parts, "; ");
}

TEST(NormalForm, IsWhatTheFileSays) {
  for (const bool settled : {false, true}) {  // the form of a settled form is itself
    for (const auto& [text, in_full] :
         RefusalsOf("tests/unit/normal/forms.txt", settled ? "settled forms" : "forms")) {
      const FormPtr form = Normal(ReadChain(text));
      EXPECT_EQ(InFull(*form), in_full) << text;
      if (!settled) continue;
      EXPECT_FALSE((*NormalFormOf(form->chain))->changed()) << text;
    }
  }
}

TEST(NormalForm, TellsTheCallersNumbers) {
  const FormPtr form = Normal(ReadChain(
      "x: bf16[1,M,64]; same = bf16(f32(x)); w: const bf16[32,64]; out bf16(same @ w.T)"));
  ASSERT_EQ(form->origins.size(), form->chain->ops().size());
  for (size_t i = 0; i < form->origins.size(); ++i) {
    const Op& planned = form->chain->ops()[i];
    EXPECT_EQ(planned.kind, form->callers->op(form->origins[i]).kind);
    if (planned.kind != OpKind::kMatmul) continue;
    const std::string now = std::to_string(i), callers = std::to_string(form->origins[i]);
    EXPECT_NE(now, callers);
    EXPECT_EQ(form->InCallersNumbers("op " + now + " (matmul): stop 2, op " + now + "; op x"),
              "op " + callers + " (matmul): stop 2, op " + callers + "; op x");
    const absl::Status error = OpRefused(static_cast<int32_t>(i), " is refused");
    EXPECT_EQ(OpOf(form->InCallersNumbers(error)), form->origins[i]);
  }
}

// A product of numbers has twice as many factors with each op: rules look at a few.
TEST(NormalForm, OfProductsOfManyNumbersIsMadeAtOnce) {
  ChainReader r("x: bf16[M,64]; number = 1.0001");
  for (int i = 0; i < 60; ++i) r.Add("number = number * number");
  r.Add("scaled = x * number; out bf16(tanh(scaled) * scaled)");
  EXPECT_EQ(Count(*Normal(r.Finish())->chain, OpKind::kUnary), 1);
}

TEST(NormalForm, KnowsActivationsInAllSpellings) {
  const auto form_of = [](const char* activation) {
    return Normal(ReadChain("x: f32[M,8]; out $0", activation))->chain->CanonicalBytes();
  };
  const std::string silu = form_of("x * sigmoid(x)"), relu = form_of("relu(x)"),
                    softplus = form_of("softplus(x)");
  EXPECT_EQ(silu, form_of("x / (exp(neg(x)) + 1)"));
  EXPECT_EQ(relu, form_of("max(0, x)"));
  EXPECT_EQ(relu, form_of("select(le(x, 0), 0, x)"));
  EXPECT_EQ(relu, form_of("select(lt(x, 0), 0, x)"));
  EXPECT_EQ(softplus, form_of("log1p(exp(x))"));
  EXPECT_EQ(softplus, form_of("log(1 + exp(x))"));
  // Not what is nearly one.
  EXPECT_NE(softplus, form_of("log(1 + x)"));
  EXPECT_NE(relu, form_of("max(1e-30, x)"));
  EXPECT_NE(relu, form_of("select(ge(x, 0), 0, x)"));
  EXPECT_NE(relu, form_of("select(le(x, 1), 0, x)"));
}

}  // namespace
}  // namespace sinter

// A default is the same however a chain is described: a field of C that is 0, a missing key of the
// text form, and the value of src/chain/composites.h written in both. The bindings pass zeroed
// structs or text, so they have no defaults of their own.
#include "src/chain/composites.h"
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

// A chain in C whose one composite is made by `add(chain, inputs)`, its result cast to bf16.
using Add = std::function<sinter_value(sinter_chain*, const std::vector<sinter_value>&)>;
Digest OfC(const std::vector<std::vector<int64_t>>& inputs, const Add& add) {
  const ChainPtr chain = EmptyChain();
  std::vector<sinter_value> values;
  for (const std::vector<int64_t>& dims : inputs) {
    const uint32_t flags = dims[0] == SINTER_DIM_M ? 0 : SINTER_INPUT_CONSTANT;
    values.push_back(Input(chain.get(), SINTER_DTYPE_BF16, dims, flags));
  }
  sinter_value out = add(chain.get(), values);
  Ok(sinter_chain_add_cast, chain.get(), out, SINTER_DTYPE_BF16, &out);
  Ok(sinter_chain_add_output, chain.get(), out, nullptr);
  Ok(sinter_chain_finish, chain.get());
  return DigestOf(chain.get());
}

Digest Norm(decltype(sinter_chain_add_layernorm)* function, double eps) {
  return OfC({{SINTER_DIM_M, 64}}, [&](sinter_chain* chain, const auto& in) {
    const auto options = Sized(sinter_norm_options{.eps = eps});
    sinter_value out = SINTER_NO_VALUE;
    Ok([&](auto e) { return function(chain, in[0], &options, &out, e); });
    return out;
  });
}

Digest Softmax(double scale) {
  return OfC({{SINTER_DIM_M, 64}}, [&](sinter_chain* chain, const auto& in) {
    const auto options = Sized(sinter_softmax_options{.scale = scale});
    sinter_value out = SINTER_NO_VALUE;
    Ok(sinter_chain_add_softmax, chain, in[0], -1, &options, &out);
    return out;
  });
}

Digest Linear(sinter_activation activation, sinter_layout layout, int64_t rows, int64_t columns) {
  return OfC({{SINTER_DIM_M, 64}, {rows, columns}}, [&](sinter_chain* chain, const auto& in) {
    const auto options = Sized(sinter_linear_options{.layout = layout, .activation = activation});
    sinter_value out = SINTER_NO_VALUE;
    Ok(sinter_chain_add_linear, chain, in[0], in[1], &options, &out);
    return out;
  });
}

Digest Convolution(sinter_filter filter, int32_t stride) {
  const bool hwio = filter == SINTER_FILTER_HWIO;
  const std::vector<int64_t> w =
      hwio ? std::vector<int64_t>{2, 2, 16, 8} : std::vector<int64_t>{8, 2, 2, 16};
  return OfC({{SINTER_DIM_M, 7, 7, 16}, w}, [&](sinter_chain* chain, const auto& in) {
    auto options = Sized(sinter_conv2d_options{.filter = filter});
    options.stride_height = options.stride_width = stride;
    sinter_value out = SINTER_NO_VALUE;
    Ok(sinter_chain_add_conv2d, chain, in[0], in[1], &options, &out);
    return out;
  });
}

// One row a default. `c(value)` describes the chain in C with the field set; `line` is the same
// chain as text without `key`.
struct Row {
  const char* line;
  const char* key;
  const char* text;   // the table's value as text
  double value;       // and as the field
  const char* other;  // a value that is not the default
  double other_value;
  std::function<Digest(double)> c;
};

constexpr char kConvolution[] = "conv b=M ic=16 h=7 w=7 oc=8 k=2 pad=0";

std::vector<Row> Rows() {
  const auto layer = [](double eps) { return Norm(&sinter_chain_add_layernorm, eps); };
  const auto rms = [](double eps) { return Norm(&sinter_chain_add_rmsnorm, eps); };
  const auto act = [](double value) { return Linear(static_cast<int32_t>(value), 0, 32, 64); };
  const auto layout = [](double value) {
    const bool io = value == SINTER_LAYOUT_IO;
    return Linear(0, static_cast<int32_t>(value), io ? 64 : 32, io ? 32 : 64);
  };
  return {
      {"layernorm rows=M cols=64 affine=0", "eps", sinter::kDefaultLayerNormEps.text,
       sinter::kDefaultLayerNormEps.value, "0.001", 0.001, layer},
      {"rmsnorm rows=M cols=64 affine=0", "eps", sinter::kDefaultRmsNormEps.text,
       sinter::kDefaultRmsNormEps.value, "0.001", 0.001, rms},
      {"softmax rows=M cols=64", "scale", sinter::kDefaultSoftmaxScale.text,
       sinter::kDefaultSoftmaxScale.value, "0.125", 0.125, Softmax},
      {"matmul m=M n=32 k=64", "act", sinter::kDefaultActivation.text,
       static_cast<double>(sinter::kDefaultActivation.value), "relu", SINTER_ACTIVATION_RELU, act},
      {"matmul m=M n=32 k=64", "layout", sinter::kDefaultLayout.text, SINTER_LAYOUT_OI, "io",
       SINTER_LAYOUT_IO, layout},
      {kConvolution, "weights", "OHWI", SINTER_FILTER_OHWI, "HWIO", SINTER_FILTER_HWIO,
       [](double value) { return Convolution(static_cast<int32_t>(value), 1); }},
      {kConvolution, "stride", "1", 1, "3", 3,
       [](double value) { return Convolution(0, static_cast<int32_t>(value)); }},
  };
}

std::string With(const Row& row, const std::string& value) {
  return absl::StrCat(row.line, " ", row.key, "=", value);
}

TEST(Defaults, AreTheSameInTextAndInC) {
  for (const Row& row : Rows()) {
    SCOPED_TRACE(absl::StrCat(row.line, ", ", row.key));
    const Digest unsaid = DigestOfText(row.line);
    EXPECT_EQ(DigestOfText(With(row, row.text)), unsaid);
    EXPECT_EQ(row.c(0), unsaid);
    EXPECT_EQ(row.c(row.value), unsaid);
    EXPECT_EQ(row.c(row.other_value), DigestOfText(With(row, row.other)));
    EXPECT_NE(row.c(row.other_value), unsaid);
  }
}

// The kinds that are made of these composites leave the same unsaid.
TEST(Defaults, AreTheSameInEveryKindOfTheText) {
  const std::string layer = sinter::kDefaultLayerNormEps.text,
                    rms = sinter::kDefaultRmsNormEps.text;
  const std::pair<std::string, std::string> rows[] = {
      {"bias_gelu_residual_layernorm rows=M cols=64", "eps=" + layer},
      {"residual_rmsnorm rows=M cols=64", "eps=" + rms},
      {"masked_softmax rows=M cols=64", absl::StrCat("scale=", sinter::kDefaultSoftmaxScale.text)},
      {"products m=M k=64 n=64,32", absl::StrCat("act=", sinter::kDefaultActivation.text)},
      {"products m=M k=64 n=64,32", absl::StrCat("layout=", sinter::kDefaultLayout.text)},
      {"gemm_chain m=M n=64 k=64 l=64 act=relu",
       absl::StrCat("layout=", sinter::kDefaultLayout.text)},
      {"gated_ffn m=M n=64 k=64 l=64 act=silu",
       absl::StrCat("layout=", sinter::kDefaultLayout.text)},
      {"gate_up m=M n=64 k=64 act=silu", absl::StrCat("layout=", sinter::kDefaultLayout.text)},
  };
  for (const auto& [line, said] : rows)
    EXPECT_EQ(DigestOfText(line), DigestOfText(line + " " + said)) << line;
}

// 0 is the default in C, so it is not a value in the text either.
TEST(Defaults, ZeroIsNoValueOfItsOwn) {
  for (const Row& row : Rows()) {
    if (row.value == 0 || row.key == std::string("layout")) continue;
    sinter_chain* chain = nullptr;
    const Result result =
        Try(sinter_x_chain_from_text, With(row, "0").c_str(), &chain, nullptr, nullptr);
    EXPECT_TRUE(Fails(result, SINTER_INVALID_ARGUMENT, absl::StrCat(row.key, " is 0, must ")))
        << row.line;
  }
}

TEST(Defaults, AreTheDocumentedOnes) {
  const std::string layer = sinter::kDefaultLayerNormEps.text,
                    rms = sinter::kDefaultRmsNormEps.text;
  const auto short_form = [](const std::string& text) {
    return absl::StrReplaceAll(text, {{"e-0", "e-"}});
  };
  EXPECT_THAT(FileText("include/sinter/sinter_chain.h"),
              HasSubstr(absl::StrCat("0 means ", short_form(layer), " in a layernorm, ",
                                     short_form(rms), " in an rmsnorm")));
  EXPECT_THAT(FileText("include/sinter/sinter_chain.h"),
              HasSubstr(absl::StrCat("0 means ", sinter::kDefaultSoftmaxScale.text, " */")));
  const std::string kinds = FileText("docs/chains.md");
  for (const std::string& row :
       {"`layernorm rows cols eps=" + layer, "`rmsnorm rows cols eps=" + rms,
        "`residual_rmsnorm rows cols eps=" + rms,
        absl::StrCat("`softmax rows cols scale=", sinter::kDefaultSoftmaxScale.text),
        absl::StrCat("act=", sinter::kDefaultActivation.text,
                     " layout=", sinter::kDefaultLayout.text)}) {
    EXPECT_THAT(kinds, HasSubstr(row));
  }
}

}  // namespace
}  // namespace sinter_test

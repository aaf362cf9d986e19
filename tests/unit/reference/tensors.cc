#include "tests/unit/reference/tensors.h"

#include "src/reference/evaluator.h"
#include "tests/support/read_chain.h"
#include "tests/support/refusals.h"

namespace sinter::testing {

std::vector<uint8_t> Encode(DType dtype, const std::vector<double>& values) {
  std::vector<uint8_t> bytes(values.size() * SizeOf(dtype));
  reference::StoreRun(values.data(), static_cast<int64_t>(values.size()), bytes.data(),
                      reference::StorageOf(dtype), 0, 1);
  return bytes;
}

std::vector<double> Decode(DType dtype, const std::vector<uint8_t>& bytes) {
  std::vector<double> values(bytes.size() / SizeOf(dtype));
  reference::View view{.data = bytes.data(), .storage = reference::StorageOf(dtype)};
  reference::ReadRun(view, 0, 1, static_cast<int64_t>(values.size()), values.data());
  return values;
}

std::vector<double> Random(DType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<double> values(count);
  for (double& v : values) {
    const double unit = static_cast<double>(engine() >> 11) * 0x1p-53;
    if (dtype == DType::kS32) {
      v = std::floor(unit * 101) - 50;
    } else if (dtype == DType::kPred) {
      v = unit < 0.5 ? 0 : 1;
    } else {
      v = reference::RoundTo(dtype, 2 * unit - 1);
    }
  }
  return values;
}

std::vector<std::vector<double>> RunF64(const Chain& chain, int64_t m,
                                        const std::vector<std::vector<double>>& inputs,
                                        const ReferenceOptions& options) {
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<const void*> pointers;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    buffers.push_back(Encode(chain.input_op(i).type.dtype, inputs[chain.InputOrder()[i]]));
    buffers.back().reserve(1);
  }
  for (const std::vector<uint8_t>& buffer : buffers) pointers.push_back(buffer.data());
  return Got(RunReferenceF64(chain, m, pointers, options));
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected,
                double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "at " << i;
  }
}

namespace {

// "1 -inf 0x1p-10 | nan": the elements of two tensors.
std::vector<std::vector<double>> NumbersOf(const std::string& text) {
  std::vector<std::vector<double>> tensors;
  if (absl::StripAsciiWhitespace(text).empty()) return tensors;
  for (const absl::string_view tensor : absl::StrSplit(text, '|')) {
    tensors.emplace_back();
    for (const std::string& number :
         std::vector<std::string>(absl::StrSplit(tensor, ' ', absl::SkipEmpty()))) {
      tensors.back().push_back(std::strtod(number.c_str(), nullptr));
    }
  }
  return tensors;
}

}  // namespace

void ExpectValues(const std::string& section) {
  for (const auto& [entry, numbers] : RefusalsOf("tests/unit/reference/values.txt", section)) {
    SCOPED_TRACE(entry);
    const std::pair<std::string, std::string> of_m = absl::StrSplit(entry, " rows: ");
    const bool has_rows = !of_m.second.empty();
    const std::pair<std::string, std::string> sides = absl::StrSplit(numbers, "->");
    const auto got = RunF64(ReadChain(has_rows ? of_m.second : entry),
                            has_rows ? std::atoi(of_m.first.c_str()) : 0, NumbersOf(sides.first));
    const auto want = NumbersOf(sides.second);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(got[i].size(), want[i].size()) << i;
      for (size_t j = 0; j < want[i].size(); ++j) {
        const double a = got[i][j], b = want[i][j];
        EXPECT_TRUE(std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b))
            << "output " << i << ", element " << j << ": " << a << ", not " << b;
      }
    }
  }
}

}  // namespace sinter::testing

// The headers tell the library's bounds: each is read from the header's
// text, then tried through the ABI, at the bound and one past it.
#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "src/base/dtype.h"
#include "src/engine/engine.h"
#include "src/reference/compare.h"
#include "tests/capi/abi.h"

namespace sinter_test {
namespace {

// All headers of include/sinter as one line of single blanks, without comment marks.
const std::string& Header() {
  static const std::string* const text = [] {
    std::string words;
    std::set<std::filesystem::path> headers;
    for (const auto& entry : std::filesystem::directory_iterator("include/sinter")) {
      if (entry.path().extension() == ".h") headers.insert(entry.path());
    }
    for (const std::filesystem::path& header : headers) {
      std::ifstream file(header);
      for (std::string line; std::getline(file, line);) {
        line = absl::StrReplaceAll(line, {{"/*", " "}, {"*/", " "}});
        absl::string_view rest = absl::StripLeadingAsciiWhitespace(line);
        absl::ConsumePrefix(&rest, "*");
        absl::StrAppend(&words, rest, " ");
      }
    }
    absl::RemoveExtraAsciiWhitespace(&words);
    return new std::string(words);
  }();
  return *text;
}

// The text that group 1 of `pattern` matches; it must occur once.
std::string Told(const std::string& pattern) {
  const std::vector<sinter::Match> found = sinter::Matches(Header(), pattern);
  EXPECT_EQ(found.size(), 1u) << "times that the headers say: " << pattern;
  return found.empty() ? "0" : found[0][1];
}

constexpr char kNumber[] = "([0-9]+(\\^[0-9]+)?( - 1)?)";

// "64", "2^40" or "2^31 - 1".
int64_t NumberOf(const std::string& text) {
  const size_t caret = text.find('^');
  int64_t value = std::stoll(text);
  if (caret != std::string::npos) value = int64_t{1} << std::stoll(text.substr(caret + 1));
  return text.find(" - 1") == std::string::npos ? value : value - 1;
}

// The number that stands between two texts of the header.
int64_t Bound(const std::string& before, const std::string& after) {
  return NumberOf(Told(before + kNumber + after));
}

// The status of adding an input of f32.
sinter_status InputOf(const std::vector<int64_t>& dims, const char* name = nullptr,
                      std::vector<int64_t> strides = {}, std::vector<int32_t> powers = {}) {
  const ChainPtr chain = EmptyChain();
  const auto options =
      Sized(sinter_input_options{.name = name,
                                 .strides = strides.empty() ? nullptr : strides.data(),
                                 .stride_m_powers = powers.empty() ? nullptr : powers.data()});
  sinter_value value = SINTER_NO_VALUE;
  return sinter_chain_add_input(chain.get(), SINTER_DTYPE_F32, static_cast<uint32_t>(dims.size()),
                                dims.data(), &options, &value, nullptr);
}

constexpr sinter_status kRefused = SINTER_INVALID_ARGUMENT;

TEST(HeaderBounds, RankAndExtents) {
  const int64_t rank = Bound("`rank` extents, 0 to ", " of them");
  EXPECT_EQ(rank, SINTER_MAX_RANK);
  EXPECT_EQ(InputOf(std::vector<int64_t>(rank, 1)), SINTER_OK);
  EXPECT_EQ(InputOf(std::vector<int64_t>(rank + 1, 1)), kRefused);
  EXPECT_EQ(InputOf({}), SINTER_OK);
  const int64_t low = Bound("of them, each ", " to 2");
  const int64_t high = Bound("of them, each 1 to ", " or SINTER_DIM_M;");
  EXPECT_EQ(InputOf({low}), SINTER_OK);
  EXPECT_EQ(InputOf({low - 1}), kRefused);
  EXPECT_EQ(InputOf({high}), SINTER_OK);
  EXPECT_EQ(InputOf({high + 1}), kRefused);
  const int64_t elements = Bound("SINTER_DIM_M; at most ", " elements, M not counted");
  EXPECT_EQ(InputOf({elements / 1024, 1024, SINTER_DIM_M}), SINTER_OK);
  EXPECT_EQ(InputOf({elements / 1024 + 1, 1024, SINTER_DIM_M}), kRefused);
}

TEST(HeaderBounds, NamesAndStrides) {
  const int64_t name = Bound("for messages only, at most ", " bytes of printable ASCII");
  EXPECT_EQ(InputOf({1}, std::string(name, 'a').c_str()), SINTER_OK);
  EXPECT_EQ(InputOf({1}, std::string(name + 1, 'a').c_str()), kRefused);
  EXPECT_EQ(InputOf({1}, "a\n"), kRefused);
  const int64_t stride = Bound("strides in elements, each 0 to ", "; NULL");
  EXPECT_EQ(InputOf({2}, nullptr, {stride}), SINTER_OK);
  EXPECT_EQ(InputOf({2}, nullptr, {stride + 1}), kRefused);
  EXPECT_EQ(InputOf({2}, nullptr, {0}), SINTER_OK);
  EXPECT_EQ(InputOf({2}, nullptr, {-1}), kRefused);
  const auto power = static_cast<int32_t>(Bound("`rank` powers, each 0 to ", ": the stride"));
  EXPECT_EQ(InputOf({2}, nullptr, {1}, {power}), SINTER_OK);
  EXPECT_EQ(InputOf({2}, nullptr, {1}, {power + 1}), kRefused);
  EXPECT_EQ(InputOf({2}, nullptr, {1}, {-1}), kRefused);
}

TEST(HeaderBounds, OpsOutputsAndOperands) {
  const ChainPtr chain = EmptyChain();
  const int64_t ops = Bound("A chain has at most ", " ops,");
  const sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {4});
  sinter_value last = SINTER_NO_VALUE;
  const auto negate = [&] {
    return sinter_chain_add_unary(chain.get(), SINTER_UNARY_NEG, x, &last, nullptr);
  };
  const auto concat = [&](int64_t count) {
    const std::vector<sinter_value> parts(count, x);
    return sinter_chain_add_concat(chain.get(), static_cast<uint32_t>(count), parts.data(), 0,
                                   &last, nullptr);
  };
  const int64_t most = Bound("1 to ", " operands of one dtype");
  EXPECT_EQ(concat(most), SINTER_OK);
  EXPECT_EQ(concat(1), SINTER_OK);
  EXPECT_EQ(concat(most + 1), kRefused);
  EXPECT_EQ(concat(0), kRefused);
  for (int64_t i = 3; i < ops; ++i) ASSERT_EQ(negate(), SINTER_OK) << i;
  EXPECT_EQ(negate(), kRefused);
  const int64_t outputs = Bound(" ops, ", " outputs, and");
  const auto output = [&] { return sinter_chain_add_output(chain.get(), x, nullptr, nullptr); };
  for (int64_t i = 0; i < outputs; ++i) ASSERT_EQ(output(), SINTER_OK) << i;
  EXPECT_EQ(output(), kRefused);
}

TEST(HeaderBounds, InputsAndOutputsTogether) {
  const ChainPtr chain = EmptyChain();
  const int64_t most = Bound(" outputs, and ", " inputs and outputs together");
  const sinter_input_options options = SINTER_INIT(sinter_input_options);
  const int64_t four = 4;
  sinter_value x = SINTER_NO_VALUE;
  const auto input = [&] {
    return sinter_chain_add_input(chain.get(), SINTER_DTYPE_F32, 1, &four, &options, &x, nullptr);
  };
  for (int64_t i = 0; i < most; ++i) ASSERT_EQ(input(), SINTER_OK) << i;
  EXPECT_EQ(input(), kRefused);
}

TEST(HeaderBounds, EpsIsPositiveAndAtMostItsBound) {
  const auto most = static_cast<double>(Bound("in an rmsnorm; at most ", " "));
  const auto norm = [](double eps) {
    const ChainPtr chain = EmptyChain();
    const sinter_value x = Input(chain.get(), SINTER_DTYPE_F32, {SINTER_DIM_M, 4});
    const auto options = Sized(sinter_norm_options{.eps = eps});
    sinter_value out = SINTER_NO_VALUE;
    return sinter_chain_add_rmsnorm(chain.get(), x, &options, &out, nullptr);
  };
  EXPECT_EQ(norm(most), SINTER_OK);
  EXPECT_EQ(norm(std::nextafter(most, 2 * most)), kRefused);
  EXPECT_EQ(norm(-most), kRefused);
}

TEST(HeaderBounds, StructSizes) {
  const auto low = static_cast<uint32_t>(Bound("begin with `struct_size`, ", " to"));
  const auto high = static_cast<uint32_t>(Bound("begin with `struct_size`, [0-9]+ to ", "\\."));
  const ContextPtr context = MakeTarget();
  const auto with_size = [&](uint32_t size) {
    std::vector<unsigned char> bytes(8192, 0);
    std::memcpy(bytes.data(), &size, sizeof(size));
    const ChainPtr chain = EmptyChain();
    const int64_t dims[] = {1};
    sinter_value value = SINTER_NO_VALUE;
    return sinter_chain_add_input(chain.get(), SINTER_DTYPE_F32, 1, dims,
                                  reinterpret_cast<sinter_input_options*>(bytes.data()), &value,
                                  nullptr);
  };
  EXPECT_EQ(with_size(low), SINTER_OK);
  EXPECT_EQ(with_size(low - 1), kRefused);
  EXPECT_EQ(with_size(high), SINTER_OK);
  EXPECT_EQ(with_size(high + 1), kRefused);
}

// Must-hit in an empty cache: a good m is a miss.
TEST(HeaderBounds, RowsOfAPrepare) {
  const ContextPtr context = MakeTarget();
  const ChainPtr chain = FromText(kSmall);
  const auto options = Sized(sinter_prepare_options{.flags = SINTER_PREPARE_MUST_HIT});
  const auto prepare = [&](int64_t m) {
    sinter_plan* plan = nullptr;
    return sinter_prepare(context.get(), chain.get(), m, &options, &plan, nullptr);
  };
  const int64_t most = Bound("serving m rows, 0 to ", "; m is ignored");
  EXPECT_EQ(prepare(0), SINTER_ERROR_CACHE_MISS);
  EXPECT_EQ(prepare(-1), kRefused);
  EXPECT_EQ(prepare(most), SINTER_ERROR_CACHE_MISS);
  EXPECT_EQ(prepare(most + 1), SINTER_OUT_OF_RANGE);
}

TEST(HeaderBounds, Buckets) {
  std::vector<int64_t> told;
  std::istringstream words(Told("up to its bucket: the smallest of ([0-9 ]+) that is >= m"));
  for (int64_t bucket; words >> bucket;) told.push_back(bucket);
  ASSERT_EQ(Told("the next multiple of a ([a-z]+) of the octave"), "sixteenth");
  for (int64_t octave = told.back(); octave < sinter::kLargestBucket; octave *= 2) {
    for (int i = 1; i <= 16; ++i) told.push_back(octave + i * octave / 16);
  }
  std::vector<int64_t> made;
  for (int64_t m = 1; m <= 3 * sinter::kLargestBucket; ++m) {
    const int64_t bucket = sinter::BucketOf(m);
    if (made.empty() || made.back() != bucket) made.push_back(bucket);
  }
  EXPECT_EQ(told, made);
  EXPECT_EQ(Bound("; above ", " the largest bucket takes them"), sinter::kLargestBucket);
}

TEST(HeaderBounds, DefaultsOfTuning) {
  EXPECT_EQ(Bound("candidates built and measured; 0 means ", " "), sinter::TuneOptions().top_k);
  EXPECT_EQ(std::stod(Told("faster by this fraction; 0 means ([0-9.]+)")),
            sinter::TuneOptions().switch_margin);
}

TEST(HeaderBounds, DigitsOfADeniedBuildId) {
  const ContextPtr context = MakeTarget();
  const int64_t least = Bound("\\(\"13.0\"\\), or ", " or more leading hex digits");
  const auto deny = [&](int64_t digits) {
    return sinter_context_deny_toolchains(context.get(), std::string(digits, 'a').c_str(), nullptr);
  };
  EXPECT_EQ(deny(least), SINTER_OK);
  EXPECT_EQ(deny(least - 1), kRefused);
}

// The page of numerics says it too.
TEST(HeaderBounds, OfCodesThatAreOneStepOff) {
  const std::string share = Told("infinite for e4m3 and s8: ([0-9.]+) % may be one step off");
  for (const sinter::DType dtype : {sinter::DType::kE4M3, sinter::DType::kS8}) {
    EXPECT_DOUBLE_EQ(std::stod(share) / 100, sinter::BoundsFor(dtype).neighbours);
  }
  const std::string page = FileText("docs/numerics.md");
  EXPECT_NE(page.find("at most " + share + " % of the elements one code off"), std::string::npos);
}

}  // namespace
}  // namespace sinter_test

// next_token against a model that sorts each row and draws by its own Philox, in float64.
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::kInf;
using testing::kNaN;
using testing::RunF64;
using V = std::vector<double>;

// The first word of Philox4x32-10 of a 64-bit key and counter, as a number in [0, 1).
double UniformAt(uint64_t seed, uint64_t place) {
  uint32_t c[4] = {static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), 0, 0};
  uint32_t k[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  const auto bits = static_cast<int32_t>(c[0]);
  return static_cast<float>(bits < 0 ? -bits - 1 : bits) * 4.6566127342e-10f;
}

struct Asked {
  int64_t count = 0;
  double temperature = 1, k = 0, top_p = 1, min_p = 0;
};

struct Model {
  V order;  // places, by falling logit
  V kept;   // places that may be drawn
  double token = -1, logarithm = kNaN;
};

// What a row gives whose first logit is at place `first` of the random numbers.
Model ModelOf(const V& logits, const Asked& asked, uint64_t seed, uint64_t first) {
  Model model;
  for (size_t i = 0; i < logits.size(); ++i) model.order.push_back(static_cast<double>(i));
  for (const double x : logits) {
    if (std::isnan(x) || x == kInf) return model;
  }
  const auto at = [&](double place) { return logits[static_cast<size_t>(place)]; };
  std::stable_sort(model.order.begin(), model.order.end(),
                   [&](double a, double b) { return at(a) > at(b); });
  const double most = at(model.order[0]);
  if (most == -kInf) return model;
  const bool greedy = !(asked.temperature > 0);
  size_t kept = asked.count > 0 ? static_cast<size_t>(asked.count) : logits.size();
  if (asked.k >= 1) kept = std::min(kept, static_cast<size_t>(asked.k));
  if (greedy) kept = 1;
  const auto share = [&](double place) { return std::exp((at(place) - most) / asked.temperature); };
  model.kept.assign(model.order.begin(), model.order.begin() + static_cast<std::ptrdiff_t>(kept));
  double sum = 0, before = 0, best = -kInf, powers = 0;
  for (const double place : model.kept) sum += greedy ? 1 : share(place);
  V survivors;
  for (const double place : model.kept) {
    const bool reached = asked.top_p < 1 && before >= asked.top_p * sum;
    const double own = greedy ? 1 : share(place);
    if (survivors.empty() || (!reached && own >= asked.min_p)) survivors.push_back(place);
    before += own;
  }
  model.kept = survivors;
  for (const double place : model.kept) {
    const double u = UniformAt(seed, first + static_cast<uint64_t>(place)) + std::ldexp(1, -32);
    const double score =
        greedy ? 0 : (at(place) - most) / asked.temperature - std::log(-std::log1p(-u));
    if (score > best) model.token = place;
    best = std::max(best, score);
  }
  for (const double x : logits) powers += std::exp(x - most);
  model.logarithm = at(model.token) - most - std::log(powers);
  return model;
}

// One case: rows of logits, all numbers of rows as inputs.
struct Draws {
  int64_t columns = 0;
  std::vector<V> rows;
  std::vector<Asked> asked;
  uint64_t seed = 7, offset = 11;

  V Column(double Asked::*field) const {
    V values;
    for (const Asked& row : asked) values.push_back(row.*field);
    return values;
  }
  // Tokens, then logarithms.
  std::vector<V> Run(const char* dtype = "f32") const {
    const int64_t count = asked[0].count;
    V x;
    for (const V& row : rows) x.insert(x.end(), row.begin(), row.end());
    std::vector<V> in = {x, Column(&Asked::temperature), Column(&Asked::min_p)};
    std::string inputs = absl::StrCat("x: ", dtype, "[M,", columns, "]; t: f32[M]; q: f32[M]; ");
    std::string options = absl::StrCat("temperature=t, min_p=q, logprob=1, count=", count);
    if (count > 0) {
      in.push_back(Column(&Asked::k));
      in.push_back(Column(&Asked::top_p));
      inputs += "k: s32[M]; p: f32[M]; ";
      options += ", k=k, top_p=p";
    }
    in.push_back({static_cast<double>(seed)});
    in.push_back({static_cast<double>(offset)});
    return RunF64(ReadChain("$0 seed, offset: s64[];"
                            "token, logarithm = next_token(x, seed, offset, $1);"
                            "out token, logarithm",
                            inputs, options),
                  static_cast<int64_t>(rows.size()), in);
  }
  Model Of(size_t row) const {
    return ModelOf(rows[row], asked[row], seed, offset + row * static_cast<uint64_t>(columns));
  }
  void ExpectTheModel(const char* dtype = "f32") const {
    const std::vector<V> out = Run(dtype);
    for (size_t row = 0; row < rows.size(); ++row) {
      SCOPED_TRACE(absl::StrCat("row ", row));
      const Model model = Of(row);
      EXPECT_EQ(out[0][row], model.token);
      if (std::isnan(model.logarithm)) {
        EXPECT_TRUE(std::isnan(out[1][row])) << out[1][row];
      } else {
        EXPECT_NEAR(out[1][row], model.logarithm, 1e-9 * std::fabs(model.logarithm) + 1e-9);
      }
    }
  }
};

Draws RandomDraws(int64_t columns, int64_t count, int64_t rows, double spread, uint64_t seed) {
  Draws draws;
  draws.columns = columns;
  draws.seed = seed << 33 | 5;  // both words of the key
  const V x = testing::Random(DType::kBF16, columns * rows, seed);
  const V number = testing::Random(DType::kF32, rows * 4, seed + 1);  // -1 to 1
  for (int64_t row = 0; row < rows; ++row) {
    V logits(x.begin() + row * columns, x.begin() + (row + 1) * columns);
    for (double& logit : logits) logit *= spread;  // a power of two
    draws.rows.push_back(logits);
    const double* n = number.data() + 4 * row;
    Asked asked;
    asked.count = count;
    asked.temperature = row % 7 == 0 ? 0 : static_cast<float>(1.01 + n[0]);
    asked.min_p = row % 3 == 0 ? 0 : static_cast<float>((1 + n[1]) / 4);
    asked.k = row % 4 == 0 || count == 0 ? 0 : std::floor((1 + n[2]) * 20);
    asked.top_p = row % 5 == 0 || count == 0 ? 1 : static_cast<float>((1 + n[3]) / 2);
    draws.asked.push_back(asked);
  }
  return draws;
}

TEST(NextToken, DrawsAsTheModelDoes) {
  for (const int64_t count : {0, 1, 20, 32}) {
    SCOPED_TRACE(count);
    RandomDraws(700, count, 120, 4, static_cast<uint64_t>(count) + 1).ExpectTheModel("bf16");
  }
}

// Rows above 8,192 columns are taken by tiles of 128; 9,001 is odd, and its last tile is filled up.
TEST(NextToken, DrawsFromLongRowsAsTheModelDoes) {
  for (const int64_t columns : {8192, 8320, 9001, 262144}) {
    for (const int64_t count : {0, 32}) {
      SCOPED_TRACE(absl::StrCat(columns, " columns, count ", count));
      RandomDraws(columns, count, columns > 9001 ? 2 : 6, 8, 3).ExpectTheModel("bf16");
    }
  }
}

// More equal logits than are kept, in many tiles: the lower places stay.
TEST(NextToken, KeepsTheLowerPlacesOfEqualLogits) {
  for (const int64_t columns : {40, 12000}) {
    Draws draws;
    draws.columns = columns;
    V logits(static_cast<size_t>(columns), -3);
    for (size_t i = 7; i < logits.size(); i += 13) logits[i] = 1;
    logits[logits.size() - 1] = 2;
    for (int row = 0; row < 64; ++row) {
      draws.rows.push_back(logits);
      draws.asked.push_back({3, 5, 0, 1, 0});
    }
    draws.ExpectTheModel();
    std::set<double> tokens;
    const V drawn = draws.Run()[0];
    tokens.insert(drawn.begin(), drawn.end());
    EXPECT_EQ(tokens, (std::set<double>{7, 20, static_cast<double>(columns - 1)}));
  }
}

TEST(NextToken, ARowWithoutADistributionGivesNoToken) {
  for (const int64_t columns : {9, 8210}) {
    for (const int64_t count : {0, 4}) {
      SCOPED_TRACE(absl::StrCat(columns, " columns, count ", count));
      Draws draws;
      draws.columns = columns;
      const auto size = static_cast<size_t>(columns);
      V one(size, -kInf), nan(size, 1), infinite(size, 1);
      one[size - 2] = -300;
      nan[3] = kNaN;
      infinite[5] = kInf;
      draws.rows = {one, nan, infinite, V(size, -kInf), V(size, 0), one, nan};
      draws.asked.assign(7, {count, 1, 0, 1, 0});
      draws.asked[4].temperature = -1;
      draws.asked[5].temperature = draws.asked[6].temperature = 0;
      draws.ExpectTheModel();
      const V tokens = draws.Run()[0];
      const double last = static_cast<double>(columns - 2);
      EXPECT_EQ(tokens, (V{last, -1, -1, -1, 0, last, -1}));
    }
  }
}

TEST(NextToken, ExtremeNumbersOfRowsHaveALimit) {
  Draws draws;
  draws.columns = 50;
  V logits;
  for (int i = 0; i < 50; ++i) logits.push_back(0.25 * (i % 10));  // 9 and others are the largest
  draws.rows.assign(12, logits);
  const double huge = 3e38, tiny = 1e-38;
  draws.asked = {{20, 1, 1, 1, 0},  {20, 1, 0, 1e-6, 0},  {20, 1, 0, 0, 0},    {20, 1, 0, -1, 0},
                 {20, 1, 0, 1, 1},  {20, 1, 0, 1, 5},     {20, tiny, 0, 1, 0}, {20, kNaN, 0, 1, 0},
                 {20, 1, -3, 1, 0}, {20, 1, 1000, 2, -1}, {20, huge, 0, 1, 0}, {20, kInf, 0, 1, 0}};
  const std::vector<V> out = draws.Run();
  for (const size_t row : {0, 1, 2, 3, 7}) EXPECT_EQ(out[0][row], 9) << row;
  // The first of equal probabilities counts as the others do.
  for (const size_t row : {4, 5, 6}) EXPECT_EQ(std::fmod(out[0][row], 10), 9) << row;
  // 10 is hot: any of the 20 largest.
  for (const size_t row : {10, 11}) EXPECT_GE(std::fmod(out[0][row], 10), 6) << row;
  EXPECT_EQ(out[0][8], draws.Of(8).token);
  EXPECT_EQ(out[0][9], draws.Of(9).token);
}

TEST(NextToken, ADrawDependsOnItsPlaceOnly) {
  Draws draws = RandomDraws(300, 20, 8, 2, 9);
  const V all = draws.Run()[0];
  Draws few = draws;
  few.rows.resize(3);
  few.asked.resize(3);
  EXPECT_EQ(few.Run()[0], V(all.begin(), all.begin() + 3));
  Draws later = draws;  // begins at the third row
  later.rows.erase(later.rows.begin(), later.rows.begin() + 2);
  later.asked.erase(later.asked.begin(), later.asked.begin() + 2);
  later.offset += 2 * 300;
  EXPECT_EQ(later.Run()[0], V(all.begin() + 2, all.end()));
  later.seed += 1;
  EXPECT_NE(later.Run()[0], V(all.begin() + 2, all.end()));
}

// A row with a seed and an offset draws what it would draw as the only row.
TEST(NextToken, ARowWithASeedDrawsAsIfItWereTheOnlyOne) {
  const char* const kChain =
      "x: f32[M,40]; seed: s32[$0]; offset: s32[$0]; out next_token(x, $1, $2, count=20)";
  const V x = testing::Random(DType::kF32, 6 * 40, 5), seeds = {1, 2, 2, 9, -4, 1};
  const V offsets = {0, 40, 80, 0, 7, 1000};
  const Chain rows = ReadChain(kChain, "M", "seed", "offset");
  const V drawn = RunF64(rows, 6, {x, seeds, offsets})[0];
  const Chain one = ReadChain(kChain, "1", "reshape(seed, [])", "reshape(offset, [])");
  for (size_t i = 0; i < 6; ++i) {
    const V row(x.begin() + static_cast<std::ptrdiff_t>(40 * i),
                x.begin() + static_cast<std::ptrdiff_t>(40 * i + 40));
    EXPECT_EQ(RunF64(one, 1, {row, {seeds[i]}, {offsets[i]}})[0][0], drawn[i]) << i;
  }
}

// A number of rank 0 is of all rows; operands that are left out bound nothing.
TEST(NextToken, OneNumberServesAllRows) {
  const V x = testing::Random(DType::kF32, 40 * 64, 5);
  const auto run = [&](const std::string& options) {
    const auto out = RunF64(ReadChain("x: f32[40,64]; seed: s32[]; out next_token(x, seed, "
                                      "scalar(3, s32), $0)",
                                      options),
                            0, {x, {4}});
    return out[0];
  };
  const V plain = run("count=8");
  EXPECT_EQ(plain, run("count=8, temperature=scalar(1), k=scalar(0, s32), top_p=scalar(1)"));
  EXPECT_NE(plain, run("count=8, temperature=scalar(50)"));
  EXPECT_EQ(run("temperature=scalar(0)"), run("count=3, temperature=scalar(0)"));
  EXPECT_EQ(run("temperature=scalar(9)"), run("temperature=scalar(9), min_p=scalar(0)"));
}

// The statistic of counts against probabilities, joined until 5 are expected, and its degrees of
// freedom.
std::pair<double, int> ChiSquared(const V& counts, const V& probabilities, double draws) {
  double statistic = 0, expected = 0, found = 0;
  int bins = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    expected += probabilities[i] * draws;
    found += counts[i];
    if (expected < 5 && i + 1 < counts.size()) continue;
    if (expected > 0) statistic += (found - expected) * (found - expected) / expected, ++bins;
    expected = found = 0;
  }
  return {statistic, bins - 1};
}

// The statistic that is exceeded with a probability of 0.001 (Wilson and Hilferty).
double Bound(int freedom) {
  const double part = 2.0 / (9 * freedom);
  return freedom * std::pow(1 - part + 3.0902 * std::sqrt(part), 3);
}

// 5,000 draws of one distribution, by rows, pass at p > 0.001.
TEST(NextToken, DrawsHaveTheirProbabilities) {
  constexpr int kDraws = 5000;
  for (const int64_t columns : {100, 256}) {
    for (const int64_t count : {0, 20}) {
      SCOPED_TRACE(absl::StrCat(columns, " columns, count ", count));
      Draws draws;
      draws.columns = columns;
      const double spread = count == 0 ? 2 : columns > 100 ? 16 : 8;
      const Draws one = RandomDraws(columns, count, 1, spread, static_cast<uint64_t>(columns));
      draws.rows.assign(kDraws, one.rows[0]);
      const Asked asked{count, 0.75, count * 0.9, count > 0 ? 0.95 : 1, 0.05};
      draws.asked.assign(kDraws, asked);
      const Model model = draws.Of(0);
      V counts(static_cast<size_t>(columns), 0), probabilities = counts;
      double sum = 0;
      for (const double place : model.kept) {
        const auto at = static_cast<size_t>(place);
        probabilities[at] = std::exp(draws.rows[0][at] / asked.temperature);
        sum += probabilities[at];
      }
      for (double& probability : probabilities) probability /= sum;
      const V tokens = draws.Run()[0];
      for (const double token : tokens) ++counts[static_cast<size_t>(token)];
      for (size_t i = 0; i < counts.size(); ++i) {
        EXPECT_TRUE(probabilities[i] > 0 || counts[i] == 0) << i;
      }
      const auto [statistic, freedom] = ChiSquared(counts, probabilities, kDraws);
      EXPECT_GT(freedom, 5);
      EXPECT_LT(statistic, Bound(freedom)) << freedom << " degrees of freedom";
      // A temperature of 1 is another distribution, which the same draws do not have.
      for (double& probability : probabilities) probability = std::pow(probability, 0.75);
      sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
      for (double& probability : probabilities) probability /= sum;
      EXPECT_GT(ChiSquared(counts, probabilities, kDraws).first, Bound(freedom));
    }
  }
}

// As a server has it: one chain from hidden states.
TEST(NextToken, FollowsAProduct) {
  const V rows = testing::Random(DType::kBF16, 6 * 16, 1);
  const V head = testing::Random(DType::kBF16, 90 * 16, 2);
  const char* chain =
      "x: bf16[M,16]; w: const bf16[90,16]; t: f32[M]; seed, offset: s64[];"
      "logits = bf16(x @ w.T);"
      "out next_token(logits, seed, offset, count=10, temperature=t), logits";
  const V heat = {0, 0.5, 1, 2, 4, 8};
  const auto out = RunF64(ReadChain(chain), 6, {rows, head, heat, {1}, {2}});
  for (size_t row = 0; row < 6; ++row) {
    const V logits(out[1].begin() + static_cast<std::ptrdiff_t>(row) * 90,
                   out[1].begin() + static_cast<std::ptrdiff_t>(row + 1) * 90);
    EXPECT_EQ(out[0][row], ModelOf(logits, {10, heat[row]}, 1, 2 + row * 90).token);
  }
}

}  // namespace
}  // namespace sinter

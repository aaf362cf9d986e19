#include "src/stitch/bank_cycles.h"

#include <algorithm>
#include <array>
#include <vector>

namespace sinter {
namespace {

constexpr int kLanes = 32, kBanks = 32;
constexpr int64_t kWordBytes = 4, kAccessBytes = 16;

// Cycles of lanes begin..end - 1, each with `words` words side by side: the load of the fullest
// bank. A word that several lanes read counts once.
int64_t CyclesOf(const std::vector<int64_t>& first_words, size_t begin, size_t end, int64_t words) {
  std::array<int64_t, kBanks> fill{};
  std::vector<int64_t> all;
  for (size_t lane = begin; lane < end; ++lane) {
    for (int64_t w = 0; w < words; ++w) all.push_back(first_words[lane] + w);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const int64_t word : all) ++fill[static_cast<size_t>(((word % kBanks) + kBanks) % kBanks)];
  return *std::max_element(fill.begin(), fill.end());
}

}  // namespace

BankAccess BankCycles(IndexSpace& space, const Index& at, IndexVar element, int width,
                      int64_t bytes) {
  const Index place = space.Canonical(at);
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(width));
  bool beside = true;  // a vector's elements are side by side and aligned
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    for (size_t e = 0; e < places.size(); ++e) {
      const auto i = lane * width + static_cast<int64_t>(e);
      places[e].push_back(space.ValueAt(place, element, i));
      beside &= places[e].back() == places[0].back() + static_cast<int64_t>(e);
    }
    beside &= places[0].back() % width == 0;
  }
  BankAccess total;
  const int64_t run = beside ? std::min(kAccessBytes, width * bytes) : bytes;  // bytes an access
  const int64_t words = std::max<int64_t>(1, run / kWordBytes);
  const auto lanes = static_cast<size_t>(kLanes / words);
  for (size_t e = 0; e < places.size(); e += static_cast<size_t>(run / bytes)) {
    ++total.accesses;
    std::vector<int64_t> first_words;
    for (const int64_t p : places[e]) first_words.push_back(p * bytes / kWordBytes);
    for (size_t lane = 0; lane < kLanes; lane += lanes) {
      total.cycles += CyclesOf(first_words, lane, lane + lanes, words);
    }
  }
  return total;
}

}  // namespace sinter

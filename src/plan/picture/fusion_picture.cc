#include "src/plan/picture/fusion_picture.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sinter {
namespace {

constexpr size_t kShownNumbers = 6;

}  // namespace

int KernelFusion::PartCount() const {
  size_t count = 0;
  for (const auto& alike : parts) count += alike.size();
  return static_cast<int>(count);
}

int FusionPicture::GroupOf(int kernel) const {
  for (size_t i = 0; i < equal.size(); ++i) {
    if (std::binary_search(equal[i].begin(), equal[i].end(), kernel)) return static_cast<int>(i);
  }
  return -1;
}

std::vector<FusionPicture::Reason> FusionPicture::Reasons() const {
  std::vector<Reason> list;
  std::map<std::tuple<int, int, int64_t, std::string>, size_t> known;
  for (const ApartKernels& pair : apart) {
    const int from = GroupOf(pair.from), to = GroupOf(pair.to);
    const auto [at, fresh] = known.try_emplace({from, to, pair.bytes, pair.why}, list.size());
    if (fresh) list.push_back({from, to, 0, pair.bytes, pair.why});
    ++list[at->second].count;
  }
  return list;
}

std::string KernelNumbers(const std::vector<int>& kernels) {
  if (kernels.size() <= kShownNumbers) return absl::StrJoin(kernels, ", ");
  const std::vector<int> first(kernels.begin(), kernels.begin() + kShownNumbers - 1);
  return absl::StrCat(absl::StrJoin(first, ", "), " .. ", kernels.back(), " (", kernels.size(),
                      ")");
}

}  // namespace sinter

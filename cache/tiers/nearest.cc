#include "cache/tiers/nearest.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cache/key/key.h"
#include "src/base/digest.h"

namespace sinter {
namespace {

// How much a differing field separates two keys: an entry for another chain is no help, one for
// another bucket is nearly right.
constexpr int kSubject = 1000, kShape = 10, kVersion = 1;

// Fields that differ, and their weight.
class Fields {
 public:
  template <typename T>
  void Shown(const char* name, const T& got, const T& want, int weight) {
    if (got == want) return;
    distance_ += weight;
    texts_.push_back(absl::StrCat(name, " is ", got, ", want ", want));
  }
  template <typename T>
  void Named(const char* name, const T& got, const T& want, int weight) {
    if (got == want) return;
    distance_ += weight;
    texts_.push_back(absl::StrCat("another ", name));
  }
  int distance() const { return distance_; }
  std::string Text() const { return absl::StrJoin(texts_, "; "); }

 private:
  int distance_ = 0;
  std::vector<std::string> texts_;
};

Fields ComparePlans(const PlanKey& got, const PlanKey& want) {
  Fields fields;
  fields.Named("chain", got.chain, want.chain, kSubject);
  fields.Shown("bucket", got.bucket, want.bucket, kShape);
  fields.Named("device model", got.device_model, want.device_model, kShape);
  fields.Shown("library", got.library_version, want.library_version, kVersion);
  fields.Shown("search version", got.search_version, want.search_version, kVersion);
  fields.Shown("flags", got.flags, want.flags, kShape);
  fields.Named("tuning set", got.tuning_set, want.tuning_set, kVersion);
  fields.Shown("format", got.format_version, want.format_version, kVersion);
  return fields;
}

Fields CompareKernels(const KernelKey& got, const KernelKey& want) {
  Fields fields;
  fields.Named("kernel", got.code, want.code, kSubject);
  fields.Named("schedule", got.schedule, want.schedule, kShape);
  fields.Named("source", got.source, want.source, kVersion);
  fields.Named("device headers", got.device_headers, want.device_headers, kVersion);
  fields.Shown("arch", got.arch, want.arch, kShape);
  fields.Shown("options", absl::StrJoin(got.options, " "), absl::StrJoin(want.options, " "),
               kVersion);
  fields.Shown("toolchain", got.toolchain_id, want.toolchain_id, kVersion);
  fields.Shown("format", got.format_version, want.format_version, kVersion);
  return fields;
}

}  // namespace

Nearest::Difference Nearest::Compare(RecordKind kind, absl::string_view got,
                                     absl::string_view want) {
  Difference unreadable{2 * kSubject, "its key is of another format"};
  if (kind == RecordKind::kPlan) {
    const auto a = DecodePlanKey(got), b = DecodePlanKey(want);
    if (!a.ok() || !b.ok()) return unreadable;
    const Fields fields = ComparePlans(*a, *b);
    return {fields.distance(), fields.Text()};
  }
  const auto a = DecodeKernelKey(got), b = DecodeKernelKey(want);
  if (!a.ok() || !b.ok()) return unreadable;
  const Fields fields = CompareKernels(*a, *b);
  return {fields.distance(), fields.Text()};
}

void Nearest::Offer(RecordKind kind, absl::string_view key, absl::string_view where) {
  if (kind != kind_) return;
  ++offered_;
  Difference difference = Compare(kind, key, key_);
  if (difference.distance >= distance_) return;
  distance_ = difference.distance;
  best_ = absl::StrCat(Sha256(key).Hex().substr(0, 16), " in ", where, ": ",
                       difference.text.empty() ? "the same key" : difference.text);
}

std::string Nearest::Explain() const {
  const char* what = kind_ == RecordKind::kPlan ? "plans" : "kernels";
  if (offered_ == 0) return absl::StrCat("the cache holds no ", what);
  return absl::StrCat("nearest of ", offered_, " ", what, " is ", best_);
}

}  // namespace sinter

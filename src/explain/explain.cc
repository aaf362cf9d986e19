// Describe: kernels by their families, and what follows from all of them together.
#include "src/explain/explain.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/launch_recipe.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

constexpr size_t kMostWords = 6;    // of a kernel
constexpr size_t kMostKernels = 6;  // of a plan

using Words = std::vector<std::string>;

// "a, b and c", "a, b, c, d, e and 7 more".
std::string Listed(Words words) {
  if (words.size() > kMostWords) {
    const size_t more = words.size() - kMostWords + 1;
    words.resize(kMostWords - 1);
    words.push_back(absl::StrCat(more, " more"));
  }
  if (words.size() < 2) return words.empty() ? "nothing" : words.front();
  const std::string last = words.back();
  words.pop_back();
  return absl::StrCat(absl::StrJoin(words, ", "), " and ", last);
}

// Kernels with equal keys are told of once.
std::string KeyOf(const PlannedKernel& kernel, const KernelDescription& description) {
  return absl::StrCat(NameOf(kernel.spec.family), description.alike, ScheduleBytes(kernel.spec),
                      FormatText("%a %a", kernel.prediction.total_us, kernel.measured_us));
}

std::vector<std::vector<int>> EqualKernels(const Explanation& e) {
  std::vector<std::vector<int>> groups;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < e.kernels.size(); ++i) {
    const auto [at, fresh] =
        known.try_emplace(KeyOf(e.plan.kernels[i], e.kernels[i]), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(static_cast<int>(i));
  }
  return groups;
}

void AddBorders(const BufferNames& names, Explanation* out) {
  const PlanTensors tensors = TensorsOf(out->plan, names);
  for (size_t i = 0; i < out->kernels.size(); ++i) {
    KernelDescription& kernel = out->kernels[i];
    for (const bool write : {false, true}) {
      for (int t : write ? tensors.kernels[i].writes : tensors.kernels[i].reads) {
        const PlanTensor& tensor = tensors.tensors[static_cast<size_t>(t)];
        (write ? kernel.writes : kernel.reads)
            .push_back(
                {tensor.place, tensor.type, tensor.bytes, write ? -1 : tensor.writer, tensor.name});
        kernel.border_bytes += tensor.bytes;
      }
    }
  }
}

class Scanner {
 public:
  Scanner(const Plan& plan, const BufferNames& names) : plan_(plan), names_(names) {
    result_.readers.resize(plan.kernels.size());
  }

  PlanTensors Run() {
    for (const PlannedKernel& kernel : plan_.kernels) {
      result_.kernels.emplace_back();
      const std::vector<KernelBuffer> buffers =
          kernel.spec.family->Buffers(kernel.spec, plan_.bucket);
      for (const bool write : {false, true}) {
        for (const KernelBuffer& at : buffers) {
          if (at.write == write) Add(at);
        }
      }
    }
    return std::move(result_);
  }

 private:
  void Add(const KernelBuffer& at) {
    const int kernel = static_cast<int>(result_.kernels.size()) - 1;
    int& tensor = last_.try_emplace({at.buffer, at.offset_bytes}, -1).first->second;
    if (at.write || tensor < 0) {
      tensor = static_cast<int>(result_.tensors.size());
      result_.tensors.push_back({at.Place(),
                                 at.type,
                                 names_.Of(at.buffer),
                                 at.bytes,
                                 at.write ? kernel : -1,
                                 at.write && at.buffer != kWorkspaceBuffer,
                                 {}});
    }
    KernelTensors& own = result_.kernels.back();
    (at.write ? own.writes : own.reads).push_back(tensor);
    if (at.write) return;
    PlanTensor& read = result_.tensors[static_cast<size_t>(tensor)];
    if (read.readers.empty() || read.readers.back() != kernel) read.readers.push_back(kernel);
    if (read.writer >= 0) result_.readers[static_cast<size_t>(read.writer)].insert(kernel);
  }

  const Plan& plan_;
  const BufferNames& names_;
  PlanTensors result_;
  std::map<std::pair<int, uint64_t>, int> last_;  // by place
};

}  // namespace

PlanTensors TensorsOf(const Plan& plan, const BufferNames& names) {
  return Scanner(plan, names).Run();
}

std::string ComputesOf(const std::vector<KernelDescription>& kernels) {
  Words order;
  std::map<std::string, int> counts;
  for (const KernelDescription& kernel : kernels) {
    const std::string text = absl::StrCat(kernel.computes, kernel.shares ? " in one" : "");
    if (++counts[text] == 1) order.push_back(text);
  }
  Words list;
  for (const std::string& text : order) {
    if (list.size() == kMostKernels && order.size() > kMostKernels + 1) {
      list.push_back(absl::StrCat("and ", order.size() - kMostKernels, " other kinds"));
      break;
    }
    list.push_back(counts[text] > 1 ? absl::StrCat(counts[text], " x ", text) : text);
  }
  return absl::StrCat(Counted(kernels.size(), "kernel"), ": ", absl::StrJoin(list, "; "));
}

Explanation Describe(const Plan& plan, const DeviceModel& model, const BufferNames& names) {
  Explanation out;
  out.plan = plan;
  for (const PlannedKernel& planned : plan.kernels) {
    const KernelFamily& family = *planned.spec.family;
    KernelDescription kernel = family.Describe(planned, plan.bucket, model, names);
    kernel.shares = kernel.words.size() > 1;
    kernel.computes = Listed(kernel.words);
    out.kernels.push_back(std::move(kernel));
    out.has_ops |= family.BodyOf(planned.spec) != nullptr;
  }
  out.computes = ComputesOf(out.kernels);
  out.equal = EqualKernels(out);
  AddBorders(names, &out);
  out.model = StoryOf(model);
  return out;
}

std::vector<Explanation::Reason> Explanation::Reasons() const {
  std::vector<int> group(kernels.size());
  for (size_t i = 0; i < equal.size(); ++i) {
    for (int kernel : equal[i]) group[static_cast<size_t>(kernel)] = static_cast<int>(i);
  }
  std::vector<Reason> list;
  std::map<std::tuple<int, int, int64_t, std::string>, size_t> known;
  for (const ApartKernels& pair : apart) {
    const int from = group[static_cast<size_t>(pair.from)];
    const int to = group[static_cast<size_t>(pair.to)];
    const auto [at, fresh] = known.try_emplace({from, to, pair.bytes, pair.why}, list.size());
    if (fresh) list.push_back({from, to, 0, pair.bytes, pair.why});
    ++list[at->second].count;
  }
  return list;
}

}  // namespace sinter

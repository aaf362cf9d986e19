// Describe: kernels by their families, and what follows from all of them together.
#include "src/explain/explain.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/builtin_models.h"
#include "src/base/data_sheets.h"
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

// Kernels with equal keys are reported once.
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
    out.has_ops |= StitchOf(planned.spec) != nullptr;
  }
  out.computes = ComputesOf(out.kernels);
  out.equal = EqualKernels(out);
  AddBorders(names, &out);
  out.model = StoryOf(model);
  return out;
}

std::vector<int> Explanation::Groups() const {
  std::vector<int> group(kernels.size());
  for (size_t i = 0; i < equal.size(); ++i) {
    for (int kernel : equal[i]) group[static_cast<size_t>(kernel)] = static_cast<int>(i);
  }
  return group;
}

std::vector<Explanation::Reason> Explanation::Reasons() const {
  const std::vector<int> group = Groups();
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

// Where the constants of a device model come from.

namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;  // in the order of the text

std::string StringOf(absl::string_view s) { return std::string(s.data(), s.size()); }

// `key = value` lines, without comments and provenance.
Fields FieldsOf(absl::string_view text) {
  Fields fields;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find_first_of("#["));
    const size_t equals = line.find('=');
    if (equals == absl::string_view::npos) continue;
    fields.emplace_back(StringOf(absl::StripAsciiWhitespace(line.substr(0, equals))),
                        StringOf(absl::StripAsciiWhitespace(line.substr(equals + 1))));
  }
  return fields;
}

// Comments by key, for the lines that have one.
std::map<std::string, std::string> CommentsOf(absl::string_view text) {
  std::map<std::string, std::string> comments;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t equals = line.find('='), hash = line.find('#');
    if (hash == absl::string_view::npos || hash < equals) continue;
    comments[StringOf(absl::StripAsciiWhitespace(line.substr(0, equals)))] =
        StringOf(absl::StripAsciiWhitespace(line.substr(hash + 1)));
  }
  return comments;
}

const char* BuiltinText(const std::string& name) {
  for (const BuiltinModelText& builtin : kBuiltinModelTexts) {
    if (name == builtin.name) return builtin.text;
  }
  return "";
}

std::string ShownNumber(const std::string& key, double value) {
  if (absl::EndsWith(key, "bytes_per_us")) return RateText(value, "B");
  if (absl::EndsWith(key, "flop_per_us")) return RateText(value, "FLOP");
  if (absl::EndsWith(key, "_us")) return absl::StrCat(value, " us");
  if (absl::EndsWith(key, "_mhz")) return absl::StrCat(value, " MHz");
  if (absl::StrContains(key, "_bytes")) return SizeText(value);
  return absl::StrCat(value);
}

std::string Shown(const std::string& key, const std::string& value) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(value, ' ', absl::SkipWhitespace())) {
    double number = 0;
    words.push_back(absl::SimpleAtod(word, &number) ? ShownNumber(key, number) : StringOf(word));
  }
  return absl::StrJoin(words, ", ");
}

bool IsNumber(const std::string& key) {
  return key != "name" && key != "arch" && key != "measured";
}

// A built-in model, and the comments of its file; empty for another name.
struct Known {
  std::map<std::string, std::string> values, comments;
};

Known KnownOf(const std::string& name) {
  Known known;
  const absl::string_view text = BuiltinText(name);
  const absl::StatusOr<DeviceModel> model = BuiltinModel(name);
  if (!model.ok()) return known;
  for (const auto& [key, value] : FieldsOf(model->ToText())) known.values[key] = value;
  known.comments = CommentsOf(text);
  return known;
}

// The source of `value`, as far as the model of the same name knows it.
std::string SourceIn(const Known& known, const std::string& key, const std::string& value) {
  const auto same = known.values.find(key);
  if (same == known.values.end()) return "given by the device or a model file";
  if (same->second != value) {
    return absl::StrCat("given by the device or a model file; built in: ",
                        Shown(key, same->second));
  }
  const auto comment = known.comments.find(key);
  return comment == known.comments.end() ? "" : comment->second;
}

// SourceIn, with the comment of the model that the value was taken over from.
std::string SourceOf(const Known& own, const Known& from, const std::string& key,
                     const std::string& value) {
  std::string source = SourceIn(own, key, value);
  const auto comment = from.comments.find(key);
  if (comment == from.comments.end()) {
    return source.empty() ? "as the model says at its head" : source;
  }
  if (!source.empty()) source += "; there: ";
  return source + comment->second;
}

std::vector<ModelNote> NotesOf(const DeviceModel& model) {
  const Known own = KnownOf(model.name);
  std::map<std::string, Known> others;
  std::vector<ModelNote> notes;
  for (const auto& [key, value] : FieldsOf(model.ToText())) {
    if (!IsNumber(key)) continue;
    const auto provenance = model.provenance.find(key);
    const std::string from = provenance == model.provenance.end() ? "" : provenance->second.from;
    const auto [other, fresh] = others.try_emplace(from);
    if (fresh && !from.empty()) other->second = KnownOf(from);
    notes.push_back({key, Shown(key, value),
                     provenance == model.provenance.end() ? "" : provenance->second.ToText(),
                     SourceOf(own, other->second, key, value)});
  }
  return notes;
}

std::string HeadNoteOf(const DeviceModel& model) {
  if (DataSheetModel(model.name, model).ok()) return StringOf(kDataSheetNote);
  std::vector<absl::string_view> head;
  for (absl::string_view line : absl::StrSplit(BuiltinText(model.name), '\n')) {
    if (!absl::ConsumePrefix(&line, "#")) break;
    head.push_back(absl::StripAsciiWhitespace(line));
  }
  return absl::StrJoin(head, " ");
}

}  // namespace

ModelStory StoryOf(const DeviceModel& model) {
  return {model.name, HeadNoteOf(model), model.measured, NotesOf(model)};
}

}  // namespace sinter

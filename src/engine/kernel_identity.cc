#include "src/engine/kernel_identity.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/codec.h"

namespace sinter {
namespace {

// The name between the quotes of an #include line; "" for any other line.
absl::string_view IncludedName(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "#")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "include")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "\"")) return "";
  const size_t end = line.find('"');
  return end == absl::string_view::npos ? "" : line.substr(0, end);
}

std::vector<absl::string_view> IncludesOf(absl::string_view text) {
  std::vector<absl::string_view> names;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view name = IncludedName(line);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

// The comment at the head of a source, of this launch instead of all that have its code.
std::string HeadOf(const KernelSpec& spec) {
  const std::string schedule = absl::StrCat("// ", ScheduleText(spec), "\n");
  return spec.stitch != nullptr ? schedule
                                : absl::StrCat("// ", spec.sequence.ToString(), "\n", schedule);
}

absl::string_view WithoutHead(absl::string_view source) {
  while (absl::StartsWith(source, "//")) {
    const size_t end = source.find('\n');
    if (end == absl::string_view::npos) return "";
    source.remove_prefix(end + 1);
  }
  return source;
}

}  // namespace

Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel,
                      const Digest& device_library) {
  std::map<absl::string_view, absl::string_view> known;
  for (const auto& header : kernel.request.headers) known[header.first] = header.second;
  std::set<absl::string_view> reached;
  bool all_known = true;
  std::vector<absl::string_view> pending = IncludesOf(kernel.request.source);
  while (!pending.empty()) {
    const absl::string_view name = pending.back();
    pending.pop_back();
    const auto header = known.find(name);
    all_known &= header != known.end();
    if (header == known.end() || !reached.insert(header->first).second) continue;
    for (const absl::string_view next : IncludesOf(header->second)) pending.push_back(next);
  }
  ByteWriter w;
  w.Bytes("sinter kernel 1");
  w.Bytes(absl::StrCat(HeadOf(spec), WithoutHead(kernel.request.source)));
  w.Bytes(kernel.request.arch);
  w.U64(kernel.request.options.size());
  for (const std::string& option : kernel.request.options) w.Bytes(option);
  w.Bytes(kernel.recipe.Encode());
  w.U64(reached.size());
  for (const absl::string_view name : reached) {
    w.Bytes(name);
    w.Bytes(known[name]);
  }
  if (!all_known) w.Raw(device_library.View());
  return Sha256(w.str());
}

}  // namespace sinter

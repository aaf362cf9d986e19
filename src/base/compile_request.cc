#include "src/base/compile_request.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/codec.h"

namespace sinter {
namespace {

using Names = std::vector<absl::string_view>;

Names IncludesOf(absl::string_view text) {
  Names names;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view name = IncludedHeader(line);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

// Returns the headers of `all` that `pending` names, and those that they include at any depth.
template <typename Includes>
HeaderMap Reach(Names pending, const HeaderMap& all, const Includes& includes) {
  HeaderMap reached;
  while (!pending.empty()) {
    const auto header = all.find(pending.back());
    pending.pop_back();
    if (header == all.end() || !reached.insert(*header).second) continue;
    for (const absl::string_view next : includes(*header)) pending.push_back(next);
  }
  return reached;
}

}  // namespace

absl::string_view IncludedHeader(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "#")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "include")) return "";
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "\"")) return "";
  const size_t end = line.find('"');
  return end == absl::string_view::npos ? "" : line.substr(0, end);
}

HeaderMap ReachedHeaders(absl::string_view source, const HeaderMap& all) {
  return Reach(IncludesOf(source), all,
               [](const HeaderMap::value_type& header) { return IncludesOf(header.second); });
}

HeaderDigests::HeaderDigests(const HeaderMap& all) {
  std::map<absl::string_view, Names> includes;
  std::map<absl::string_view, Digest> own;
  for (const auto& [name, bytes] : all) {
    includes[name] = IncludesOf(bytes);
    own[name] = Sha256(bytes);
  }
  for (const auto& header : all) {
    ByteWriter w;
    const HeaderMap reached =
        Reach({header.first}, all,
              [&](const HeaderMap::value_type& h) -> const Names& { return includes[h.first]; });
    for (const auto& [name, bytes] : reached) {
      w.Bytes(name);
      w.Raw(own[name].View());
    }
    digests_.emplace(header.first, Sha256(w.str()));
  }
}

Digest HeaderDigests::Of(absl::string_view header) const {
  const auto digest = digests_.find(header);
  return digest == digests_.end() ? Digest() : digest->second;
}

namespace {

constexpr absl::string_view kPrefix = "nvrtc-";
constexpr absl::string_view kHashPrefix = "sha256:";
constexpr size_t kLeastDigits = 8;

bool AllOf(absl::string_view text, bool (*is)(unsigned char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [is](char c) { return is(static_cast<unsigned char>(c)); });
}

bool IsVersion(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  return parts.size() == 2 && AllOf(parts[0], absl::ascii_isdigit) &&
         AllOf(parts[1], absl::ascii_isdigit);
}

bool IsIdentity(absl::string_view text) {
  absl::ConsumePrefix(&text, kHashPrefix);
  return text.size() >= kLeastDigits && AllOf(text, absl::ascii_isxdigit);
}

}  // namespace

std::string MakeToolchainId(int major, int minor, absl::string_view identity) {
  return absl::StrCat(kPrefix, major, ".", minor, "-", identity);
}

int NvrtcVersionOf(absl::string_view toolchain_id) {
  if (!absl::ConsumePrefix(&toolchain_id, kPrefix)) return 0;
  const absl::string_view version = toolchain_id.substr(0, toolchain_id.find('-'));
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  int major = 0, minor = 0;
  const bool known = IsVersion(version) && absl::SimpleAtoi(parts[0], &major) &&
                     absl::SimpleAtoi(parts[1], &minor) && major < 10000 && minor < 100;
  return known ? 100 * major + minor : 0;
}

absl::Status ToolchainDenyList::Add(absl::string_view entries) {
  std::vector<std::string> fresh;
  for (absl::string_view entry : absl::StrSplit(entries, ',')) {
    entry = absl::StripAsciiWhitespace(entry);
    if (entry.empty()) continue;
    if (!IsVersion(entry) && !IsIdentity(entry)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "denied toolchain \"", entry.substr(0, 64), "\" is neither a version such as 13.0 nor ",
          kLeastDigits, " or more hex digits of a build id"));
    }
    fresh.push_back(absl::AsciiStrToLower(entry));
  }
  if (fresh.empty()) return absl::OkStatus();
  auto addition = std::make_unique<Addition>();
  addition->entries = std::move(fresh);
  addition->before = newest_.load(std::memory_order_relaxed);
  while (!newest_.compare_exchange_weak(addition->before, addition.get(), std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  addition.release();
  return absl::OkStatus();
}

ToolchainDenyList::~ToolchainDenyList() {
  const Addition* addition = newest_.load(std::memory_order_acquire);
  while (addition != nullptr) delete std::exchange(addition, addition->before);
}

std::string ToolchainDenyList::Match(absl::string_view toolchain_id) const {
  if (empty() || !absl::ConsumePrefix(&toolchain_id, kPrefix)) return std::string();
  const std::vector<absl::string_view> parts =
      absl::StrSplit(toolchain_id, absl::MaxSplits('-', 1));
  if (parts.size() != 2) return std::string();
  for (const Addition* addition = newest_.load(std::memory_order_acquire); addition != nullptr;
       addition = addition->before) {
    for (const std::string& entry : addition->entries) {
      const bool match =
          IsVersion(entry) ? parts[0] == entry : absl::StartsWithIgnoreCase(parts[1], entry);
      if (match) return entry;
    }
  }
  return std::string();
}

}  // namespace sinter

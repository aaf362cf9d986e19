#include "src/base/reached_headers.h"

#include <vector>

#include "absl/strings/ascii.h"
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

// What is reached from `pending`, of the headers that `all` has.
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

}  // namespace sinter

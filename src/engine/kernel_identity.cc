#include "src/engine/kernel_identity.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/reached_headers.h"

namespace sinter {
namespace {

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

Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel) {
  HeaderMap all;
  for (const auto& header : kernel.request.headers) all[header.first] = header.second;
  const HeaderMap reached = ReachedHeaders(kernel.request.source, all);
  ByteWriter w;
  w.Bytes("sinter kernel 1");
  w.Bytes(absl::StrCat(HeadOf(spec), WithoutHead(kernel.request.source)));
  w.Bytes(kernel.request.arch);
  w.U64(kernel.request.options.size());
  for (const std::string& option : kernel.request.options) w.Bytes(option);
  w.Bytes(kernel.recipe.Encode());
  w.U64(reached.size());
  for (const auto& [name, bytes] : reached) {
    w.Bytes(name);
    w.Bytes(bytes);
  }
  return Sha256(w.str());
}

}  // namespace sinter

#include "tests/compile/kernel_list.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/arch.h"
#include "tests/support/files.h"
#include "tests/support/header_digests.h"

namespace sinter::testing {
namespace {

// The digest of each header of the device library, and of all that it reaches, as the compiler
// reads it for a capability such as 90.
const std::map<std::string, Digest>& LibraryDigests(int capability) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, std::map<std::string, Digest>>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [known, fresh] = all->try_emplace(capability);
  if (!fresh) return known->second;
  std::map<std::string, std::string> code;
  HeaderMap headers;
  for (const auto& [name, bytes] : DeviceHeaderMap()) {
    headers[name] = code[std::string(name)] = CodeFor(capability, bytes);
  }
  const HeaderDigest digest_of = DigestOfReached(headers);
  for (const auto& header : headers) known->second.emplace(header.first, digest_of(header.first));
  return known->second;
}

std::string g_options;  // of the last program that the library below was given

// A compiler library that notes its options and refuses.
std::shared_ptr<const NvrtcLibrary> NotingNvrtc() {
  NvrtcTable table;
  table.CreateProgram = [](nvrtcProgram*, const char*, const char*, int, const char* const*,
                           const char* const*) { return NVRTC_SUCCESS; };
  table.DestroyProgram = [](nvrtcProgram*) { return NVRTC_SUCCESS; };
  table.CompileProgram = [](nvrtcProgram, int count, const char* const* options) {
    g_options = absl::StrJoin(options, options + count, " ");
    return NVRTC_ERROR_COMPILATION;
  };
  table.GetProgramLogSize = [](nvrtcProgram, size_t* size) {
    *size = 1;
    return NVRTC_SUCCESS;
  };
  table.GetProgramLog = [](nvrtcProgram, char* log) {
    *log = 0;
    return NVRTC_SUCCESS;
  };
  table.GetErrorString = [](nvrtcResult) { return "refused"; };
  return NvrtcLibrary::FromTable(table, "nvrtc-13.0-noting");
}

}  // namespace

std::string CodeFor(int capability, absl::string_view text) {
  constexpr absl::string_view kSince = "#if __CUDA_ARCH__ >= ";
  std::string code;
  int depth = 0;  // of conditions inside one on the architecture, and that one; 0: outside
  bool read = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view words = absl::StripAsciiWhitespace(line);
    if (words.empty() || absl::StartsWith(words, "//")) continue;
    int since = 0;
    if (depth == 0 && absl::ConsumePrefix(&words, kSince) && absl::SimpleAtoi(words, &since)) {
      depth = 1;
      read = capability * 10 >= since;
      continue;
    }
    if (depth > 0 && absl::StartsWith(words, "#if")) ++depth;
    if (depth > 0 && words == "#endif" && --depth == 0) {
      read = true;
      continue;
    }
    if (depth == 1 && words == "#else") {
      read = !read;
      continue;
    }
    if (read) absl::StrAppend(&code, line, "\n");
  }
  return code;
}

std::string KernelDigest(const CompileRequest& request) {
  const absl::StatusOr<ArchFeatures> features = FeaturesOf(request.arch);
  const int capability = features.ok() ? features->capability : 0;
  const std::map<std::string, Digest>& library = LibraryDigests(capability);
  std::string text = absl::StrCat(request.arch, "\n", request.entry, "\n", request.most_spill_bytes,
                                  "\n", absl::StrJoin(request.options, "\n"), "\n");
  for (const absl::string_view line : absl::StrSplit(request.source, '\n')) {
    const auto header = library.find(std::string(IncludedHeader(line)));
    if (header != library.end()) absl::StrAppend(&text, header->second.Hex());
  }
  return Sha256(absl::StrCat(text, CodeFor(capability, request.source))).Hex().substr(0, 16);
}

std::string ListedCompiler(const std::string& toolchain) {
  MakeNvrtcCompiler([] { return NotingNvrtc(); })
      ->Compile({.arch = "sm_90a", .entry = "none"})
      .status()
      .IgnoreError();
  return absl::StrCat("toolchain ", toolchain, "\noptions ", g_options, "\n");
}

KernelList::KernelList(std::string path, const std::string& toolchain)
    : path_(std::move(path)), compiler_(ListedCompiler(toolchain)) {
  const std::string all = FileText(path_);
  absl::string_view lines = all;
  if (!absl::ConsumePrefix(&lines, compiler_)) return;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    known_.emplace(line);
  }
}

void KernelList::Add(const std::string& digest) {
  std::lock_guard<std::mutex> lock(mutex_);
  added_.insert(digest);
}

void KernelList::Write(bool beside) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::set<std::string> all = added_;
  if (beside) all.insert(known_.begin(), known_.end());
  std::ofstream(path_, std::ios::binary) << compiler_ << absl::StrJoin(all, "\n") << "\n";
}

}  // namespace sinter::testing

#include "src/engine/kernel_identity.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/codec.h"
#include "src/base/reached_headers.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

// Behind the literal that begins at `at`; a digit separator is none.
size_t EndOfLiteral(absl::string_view text, size_t at) {
  const char quote = text[at];
  if (quote == '\'' && at > 0 && absl::ascii_isalnum(static_cast<unsigned char>(text[at - 1]))) {
    return at + 1;
  }
  for (size_t i = at + 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return i + 1;
    }
  }
  return at + 1;
}

std::string WithoutComments(absl::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const absl::string_view two = text.substr(at, 2);
    size_t end = at + 1;
    if (two == "//" || two == "/*") {
      const bool line = two == "//";
      end = text.find(line ? "\n" : "*/", at + 2);
      at = end == absl::string_view::npos ? text.size() : end + (line ? 0 : 2);
      plain.push_back(' ');
      continue;
    }
    if (text[at] == '"' || text[at] == '\'') end = EndOfLiteral(text, at);
    absl::StrAppend(&plain, text.substr(at, end - at));
    at = end;
  }
  return plain;
}

// What the compiler reads of a text: each header where it is first included. Headers that were read
// lose their bytes in `unread`.
void AppendRead(absl::string_view text, HeaderMap* unread, std::string* read) {
  for (absl::string_view line : absl::StrSplit(WithoutComments(text), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const auto header = unread->find(IncludedHeader(line));
    if (header != unread->end()) {
      const absl::string_view bytes = header->second;
      header->second = "";
      AppendRead(bytes, unread, read);
    } else if (!line.empty() && line != "#pragma once") {
      absl::StrAppend(read, line, "\n");
    }
  }
}

std::string TextRead(const CompileRequest& request) {
  HeaderMap all;
  for (const auto& header : request.headers) all[header.first] = header.second;
  std::string read;
  AppendRead(request.source, &all, &read);
  return read;
}

}  // namespace

Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel) {
  ByteWriter w;
  w.Bytes("sinter kernel 2");
  w.Bytes(spec.family->IdentityText(spec));
  w.Bytes(ScheduleText(spec));
  w.Bytes(TextRead(kernel.request));
  w.Bytes(kernel.request.arch);
  w.U64(kernel.request.options.size());
  for (const std::string& option : kernel.request.options) w.Bytes(option);
  w.Bytes(kernel.recipe.Encode());
  return Sha256(w.str());
}

}  // namespace sinter

// stitch_kernels_generator OUT.cc [FIRST_SEED LAST_SEED SCHEDULES]: kernels of the stitch family as
// one C++ source: the device library's own text and the generated kernels', with every asm
// statement a call of host_words.h.
#include "src/device/device_library.h"
#include "src/plan/kernel_code.h"
#include "src/stitch/code/stitch_source.h"
#include "tests/support/stitch_bytes.h"
#include "tests/unit/stitch_kernels/kernel_cases.h"

namespace sinter::stitch_host {
namespace {

// Past a string literal or a bracketed group that begins at `at`.
size_t Past(const std::string& text, size_t at) {
  if (text[at] == '"') {
    for (++at; text[at] != '"'; ++at) at += text[at] == '\\';
    return at + 1;
  }
  for (++at; text[at] != ')';) at = text[at] == '"' || text[at] == '(' ? Past(text, at) : at + 1;
  return at + 1;
}

std::vector<std::string> SplitAtTop(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (size_t at = 0; at < text.size();) {
    if (text[at] == separator) {
      parts.emplace_back();
      ++at;
      continue;
    }
    const size_t next = text[at] == '"' || text[at] == '(' ? Past(text, at) : at + 1;
    parts.back() += text.substr(at, next - at);
    at = next;
  }
  return parts;
}

// "max.NaN.f32 %0, .." is ptx_max_NaN_f32; a move is named for its special register too.
std::string FunctionOf(const std::string& instructions) {
  std::string name = "ptx_";
  size_t at = instructions.find('"') + 1;
  for (; std::isalnum(instructions[at]) || absl::StrContains("._:", instructions.substr(at, 1));
       ++at) {
    name += std::isalnum(instructions[at]) ? instructions[at] : '_';
  }
  const size_t special = instructions.find("%%");
  if (special == std::string::npos) return name;
  name = "ptx_mov_";
  for (at = special + 2; std::isalnum(instructions[at]) || instructions[at] == '_'; ++at) {
    name += instructions[at];
  }
  return name;
}

// The text between the parentheses of an asm statement, as a call.
std::string CallOf(const std::string& statement, std::set<std::string>* functions) {
  const std::vector<std::string> parts = SplitAtTop(statement, ':');
  std::vector<std::string> arguments;
  for (size_t i = 1; i < parts.size() && i < 3; ++i) {
    for (const std::string& operand : SplitAtTop(parts[i], ',')) {
      const size_t open = operand.find('(');
      if (open == std::string::npos) continue;
      arguments.push_back(operand.substr(open + 1, operand.rfind(')') - open - 1));
    }
  }
  const std::string function = FunctionOf(parts[0]);
  functions->insert(function);
  return absl::StrCat(function, "(", absl::StrJoin(arguments, ", "), ")");
}

std::string WithoutAsm(const std::string& text, std::set<std::string>* functions) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t found = text.find("asm", at);
    if (found == std::string::npos) return result + text.substr(at);
    const size_t open = text.find_first_not_of(" ", found + 3);
    const size_t bracket = text.compare(open, 8, "volatile") == 0 ? text.find('(', open) : open;
    if (text[bracket] != '(' || std::isalnum(text[found - 1]) || text[found - 1] == '_') {
      result += text.substr(at, found + 3 - at);
      at = found + 3;
      continue;
    }
    const size_t end = Past(text, bracket);
    result += text.substr(at, found - at);
    result += CallOf(text.substr(bracket + 1, end - bracket - 2), functions);
    at = end;
  }
  return result;
}

// A header with what it includes before it, each once.
void AddHeader(const std::string& name, const std::map<std::string, std::string>& library,
               std::set<std::string>* added, std::string* text) {
  if (!added->insert(name).second) return;
  std::string own;
  for (absl::string_view line : absl::StrSplit(library.at(name), '\n')) {
    const std::vector<std::string> quoted = absl::StrSplit(line, '"');
    if (absl::StartsWith(line, "#include")) AddHeader(quoted[1], library, added, text);
    if (!absl::StartsWith(line, "#include") && !absl::StartsWith(line, "#pragma once")) {
      absl::StrAppend(&own, line, "\n");
    }
  }
  absl::StrAppend(text, "// ---- ", name, "\n", own);
}

std::string Library(std::set<std::string>* functions) {
  std::map<std::string, std::string> headers;
  for (auto& [name, bytes] : CopyDeviceHeaders()) headers[name] = bytes;
  std::set<std::string> added;
  std::string text;
  AddHeader("stitch/places.cuh", headers, &added, &text);
  for (const char* name : {"stitch/row_steps.cuh", "stitch/random.cuh"}) {
    AddHeader(name, headers, &added, &text);
  }
  return WithoutAsm(text, functions);
}

// The kernel under a name of its own, and a function that calls it with untyped pointers.
std::string KernelText(const std::string& source, size_t number) {
  const size_t name = source.find(kStitchEntry, source.find("extern \"C\""));
  const size_t open = source.find('(', name), close = source.find(") {\n", open);
  const std::string types = source.substr(open + 1, close - open - 1);
  std::vector<std::string> arguments;
  for (absl::string_view parameter : absl::StrSplit(types, ',')) {
    const std::string clean = absl::StrReplaceAll(parameter, {{"__restrict__ ", ""}, {"\n", ""}});
    if (absl::StrContains(clean, "int m")) break;
    arguments.push_back(absl::StrCat("static_cast<", clean.substr(0, clean.rfind(' ')), ">(p[",
                                     arguments.size(), "])"));
  }
  arguments.push_back("m");
  const std::string kernel = absl::StrCat("kernel", number);
  return absl::StrCat("namespace sinter {\n// ", source.substr(3, source.find('\n') - 3),
                      "\nstatic void ", kernel, source.substr(open),
                      "namespace sinter {\nstatic void run", number,
                      "(void* const* p, int m) {\n  ", kernel, "(", absl::StrJoin(arguments, ", "),
                      ");\n}\n}  // namespace sinter\n\n");
}

std::string Literal(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i % 400 == 0) absl::StrAppend(&text, i == 0 ? "\"" : "\"\n    \"");
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned char>(bytes[i]));
    absl::StrAppend(&text, octal);
  }
  return text + "\"";
}

absl::Status Write(const std::string& path, const CaseOptions& options) {
  std::set<std::string> functions;
  const std::string library = Library(&functions);
  std::string kernels, table;
  size_t count = 0;
  for (const KernelCase& one : MakeKernelCases(options)) {
    KernelSpec spec{.family = &StitchFamily()};
    spec.body = MakeBody(one.spec);
    const auto kernel = Generate(spec, *BuiltinModel("h200"), {});
    if (!kernel.ok()) continue;  // vectors that cross a border
    absl::StrAppend(&kernels, KernelText(kernel->request.source, count));
    ByteWriter bytes;
    WriteStitch(one.spec, bytes);
    absl::StrAppend(&table, "    {", Literal(one.name), ", ", Literal(bytes.str()), ", ",
                    bytes.str().size(), ", ", one.m, ", ", kernel->recipe.shared_bytes,
                    ", stitch_device::run", count++, "},\n");
  }
  std::ofstream out(path);
  out << "// Generated.\n#include \"tests/unit/stitch_kernels/host_words.h\"\n"
         "#include \"tests/unit/stitch_kernels/host_kernel.h\"\n\n";
  for (const std::string& function : functions) {
    out << "template <class... T>\ninline void " << function << "(T&&...) {\n  std::abort();\n}\n";
  }
  out << "#define sinter stitch_device\n" << library << kernels << "#undef sinter\n";
  out << "const sinter::stitch_host::HostKernel kHostKernels[] = {\n" << table << "};\n";
  out << "const int kHostKernelCount = " << count << ";\n";
  return out ? absl::OkStatus() : absl::UnknownError(absl::StrCat("cannot write ", path));
}

}  // namespace
}  // namespace sinter::stitch_host

int main(int argc, char** argv) {
  if (argc != 2 && argc != 5) return 2;
  sinter::stitch_host::CaseOptions options;
  if (argc == 5) {
    options.first_seed = std::strtoull(argv[2], nullptr, 10);
    options.last_seed = std::strtoull(argv[3], nullptr, 10);
    options.kinds = std::atoi(argv[4]);
  }
  const absl::Status status = sinter::stitch_host::Write(argv[1], options);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

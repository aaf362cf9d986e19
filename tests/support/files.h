// Files and folders of tests.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// The bytes of a file; "" where it cannot be read.
inline std::string FileText(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lines of a file without comments, which begin with `#`, and without empty ones.
inline std::vector<std::string> LinesOf(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    absl::StripTrailingAsciiWhitespace(&line);
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// The lines of the section that begins with a line "[section]".
inline std::vector<std::string> SectionOf(const std::filesystem::path& path,
                                          absl::string_view section) {
  std::vector<std::string> lines;
  bool inside = false;
  for (std::string& line : LinesOf(path)) {
    const bool begins = line[0] == '[';
    if (begins) inside = line == absl::StrCat("[", section, "]");
    if (inside && !begins) lines.push_back(std::move(line));
  }
  return lines;
}

// A new folder in `base`, by default $TMPDIR or /tmp. It and all in it are removed at the end.
class TempDir {
 public:
  explicit TempDir(const char* base = nullptr) {
    if (base == nullptr) base = getenv("TMPDIR");
    std::string name = absl::StrCat(base != nullptr ? base : "/tmp", "/sinter-test-XXXXXX");
    if (mkdtemp(&name[0]) == nullptr) throw std::runtime_error("no folder: " + name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sinter

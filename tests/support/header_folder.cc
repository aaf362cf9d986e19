#include "tests/support/header_folder.h"

#include "tests/support/files.h"

namespace sinter {

std::vector<std::pair<std::string, std::string>> ReadHeaderFolder(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> headers;
  std::error_code error;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (file.path().extension() != ".cuh") continue;
    headers.emplace_back(file.path().lexically_relative(folder).string(), FileText(file.path()));
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

}  // namespace sinter

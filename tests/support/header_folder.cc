#include "tests/support/header_folder.h"

namespace sinter {

std::vector<std::pair<std::string, std::string>> ReadHeaderFolder(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> headers;
  std::error_code error;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (file.path().extension() != ".cuh") continue;
    std::ifstream in(file.path(), std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    headers.emplace_back(file.path().lexically_relative(folder).string(), bytes.str());
  }
  std::sort(headers.begin(), headers.end());
  return headers;
}

}  // namespace sinter

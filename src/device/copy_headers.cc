#include "src/device/device_library.h"

namespace sinter {

std::vector<std::pair<std::string, std::string>> CopyDeviceHeaders() {
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  std::vector<std::pair<std::string, std::string>> copies;
  for (size_t i = 0; i < count; ++i)
    copies.emplace_back(headers[i].name, std::string(headers[i].bytes, headers[i].size));
  return copies;
}

}  // namespace sinter

// The device library as the build embedded it: every .cuh of this folder, by the name that
// generated source includes.
#ifndef SINTER_SRC_DEVICE_DEVICE_LIBRARY_H_
#define SINTER_SRC_DEVICE_DEVICE_LIBRARY_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sinter {

struct DeviceHeader {
  const char* name;   // "kernels/product.cuh"
  const char* bytes;  // NUL-terminated text
  size_t size;
  // SHA-256 of a line for each header that it reaches by #include, itself included, in the order of
  // their names: the name, a blank, the SHA-256 of its bytes in hex. Conditions are not looked at.
  unsigned char reached[32];
};

// Sorted by name. Static storage.
const DeviceHeader* DeviceHeaders(size_t* count);

// The same as (name, bytes), as a request to the compiler carries them.
inline std::vector<std::pair<std::string, std::string>> CopyDeviceHeaders() {
  size_t count = 0;
  const DeviceHeader* headers = DeviceHeaders(&count);
  std::vector<std::pair<std::string, std::string>> copies;
  for (size_t i = 0; i < count; ++i)
    copies.emplace_back(headers[i].name, std::string(headers[i].bytes, headers[i].size));
  return copies;
}

}  // namespace sinter

#endif  // SINTER_SRC_DEVICE_DEVICE_LIBRARY_H_

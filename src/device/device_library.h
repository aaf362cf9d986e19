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
};

// Sorted by name. Static storage.
const DeviceHeader* DeviceHeaders(size_t* count);

// The same as (name, bytes), as a request to the compiler carries them.
std::vector<std::pair<std::string, std::string>> CopyDeviceHeaders();

}  // namespace sinter

#endif  // SINTER_SRC_DEVICE_DEVICE_LIBRARY_H_

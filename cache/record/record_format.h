// RecordFormat: the versions of the layouts that this library writes and reads.
#ifndef SINTER_CACHE_RECORD_RECORD_FORMAT_H_
#define SINTER_CACHE_RECORD_RECORD_FORMAT_H_

#include <cstdint>

namespace sinter {

constexpr uint32_t kEnvelopeVersion = 3;
constexpr uint32_t kKernelRecordVersion = 4;

// What a codec is told. Tests stand in for another version of the library by other numbers; nobody
// else sets them.
struct RecordFormat {
  uint32_t envelope = kEnvelopeVersion;
  uint32_t kernel = kKernelRecordVersion;  // of the payload of a kernel entry
};

}  // namespace sinter

#endif  // SINTER_CACHE_RECORD_RECORD_FORMAT_H_

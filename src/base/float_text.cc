#include "src/base/float_text.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "src/base/format.h"

namespace sinter {

std::string FloatText(double value) {
  const float f = static_cast<float>(value);
  if (std::isfinite(f)) return FormatText("%af", static_cast<double>(f));
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return FormatText("__uint_as_float(0x%08xu)", bits);
}

}  // namespace sinter

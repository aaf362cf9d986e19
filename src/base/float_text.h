// FloatText: numbers of generated source.
#ifndef SINTER_SRC_BASE_FLOAT_TEXT_H_
#define SINTER_SRC_BASE_FLOAT_TEXT_H_

#include <string>

namespace sinter {

// An f32 literal of CUDA C++ that reads back exactly; infinities by their bits.
std::string FloatText(double value);

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FLOAT_TEXT_H_

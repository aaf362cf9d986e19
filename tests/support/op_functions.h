// The functions of src/chain/ops.def in a floating type, as the reference has them in float64.
#pragma once

#include <cmath>

#include "src/chain/op.h"
#include "src/reference/evaluator.h"

namespace sinter::testing {

template <typename Float>
Float Apply(UnaryKind kind, Float x) {
  using reference::CeilPow2, reference::Sigmoid;
  switch (kind) {
#define SINTER_UNARY(number, Name, name, operands, reference, ...) \
  case UnaryKind::k##Name:                                         \
    return static_cast<Float>(reference);
#include "src/chain/ops.def"
  }
  return x;
}

template <typename Float>
Float Apply(BinaryKind kind, Float x, Float y) {
  switch (kind) {
#define SINTER_BINARY(number, Name, name, operands, reference, ...) \
  case BinaryKind::k##Name:                                         \
    return static_cast<Float>(reference);
#include "src/chain/ops.def"
  }
  return x;
}

}  // namespace sinter::testing

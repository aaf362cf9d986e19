// RowMachine: what the kernel of src/device/stitch/row_program.cuh computes, on the host.
#pragma once

#include "src/device/stitch/row_format.cuh"
#include "tests/support/common.h"
#include "tests/support/op_functions.h"

namespace sinter::testing {

class HostRows {
 public:
  // `buffers`: inputs, then outputs.
  HostRows(const RowProgram& program, std::vector<char*> buffers)
      : p_(program), buffers_(std::move(buffers)) {}

  void Run(int64_t m) {
    for (int64_t row = 0; row < m * p_.rows_per_m; ++row) {
      outer_ = row / p_.inner_rows;
      inner_ = row % p_.inner_rows;
      acc_.assign(static_cast<size_t>(p_.columns), std::nanf(""));
      slots_.clear();
      for (int i = 0; i < p_.count; ++i) Step(p_.steps[i]);
    }
  }

 private:
  using Values = std::vector<float>;

  static float Half(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    if (exponent == 31) return fraction != 0 ? std::nanf("") : sign * HUGE_VALF;
    return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  static float Rounded(RowType type, float x) {
    if (type == kRowFloat32 || !std::isfinite(x) || x == 0) return x;
    int exponent = 0;
    std::frexp(x, &exponent);
    const int digits = type == kRowBFloat16 ? 8 : 11;
    const int step = type == kRowFloat16 ? std::max(exponent - digits, -24) : exponent - digits;
    return std::ldexp(std::nearbyint(std::ldexp(x, -step)), step);
  }
  float Get(const RowView& v, int64_t i) const {
    const char* data = buffers_[v.buffer];
    float x = 0;
    uint16_t bits = 0;
    if (v.type == kRowFloat32) {
      std::memcpy(&x, data + 4 * i, 4);
      return x;
    }
    std::memcpy(&bits, data + 2 * i, 2);
    if (v.type == kRowFloat16) return Half(bits);
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    std::memcpy(&x, &word, 4);
    return x;
  }
  void Put(const RowView& v, int64_t i, float x) const {
    char* data = buffers_[v.buffer];
    x = Rounded(v.type, x);
    if (v.type == kRowFloat32) {
      std::memcpy(data + 4 * i, &x, 4);
      return;
    }
    uint16_t bits = 0;
    if (v.type == kRowBFloat16) {
      uint32_t word = 0;
      std::memcpy(&word, &x, 4);
      bits = static_cast<uint16_t>(word >> 16);
    } else {
      while (bits != 0x7c00 && Half(bits) != std::fabs(x)) ++bits;
      if (std::signbit(x)) bits |= 0x8000;
    }
    std::memcpy(data + 2 * i, &bits, 2);
  }
  int64_t At(const RowView& v) const { return v.base + outer_ * v.outer + inner_ * v.inner; }

  float Number(int kind, int index, float constant) const {
    if (kind == kRowConstant) return constant;
    if (kind == kRowNumber) return numbers_[index];
    return Get(p_.views[index], At(p_.views[index]));
  }
  Values Fetch(int kind, int index, float constant) {
    if (kind == kRowSlot) {
      if (slots_.count(index) == 0) return Values(acc_.size(), std::nanf(""));
      return slots_[index];
    }
    if (kind != kRowView) return Values(acc_.size(), Number(kind, index, constant));
    Values values;
    const RowView& v = p_.views[index];
    for (int64_t c = 0; c < p_.columns; ++c) values.push_back(Get(v, At(v) + c * v.column));
    return values;
  }

  // A NaN stays.
  static float Larger(float a, float b) { return a > b || std::isnan(a) ? a : b; }

  static float One(int op, float x) {
    if (op == kRowRoundBFloat16) return Rounded(kRowBFloat16, x);
    if (op == kRowRoundFloat16) return Rounded(kRowFloat16, x);
    return Apply(static_cast<UnaryKind>(op - kRowUnary), x);
  }
  static float Two(int op, float a, float b) {
    switch (op) {
      case kRowFastDiv:
        return a / b;
      case kRowSubFrom:
        return b - a;
      case kRowDivInto:
      case kRowFastDivInto:
        return b / a;
      case kRowEq:
        return a == b ? 1.0f : 0.0f;
      case kRowNe:
        return a != b ? 1.0f : 0.0f;
      case kRowLt:
        return a < b ? 1.0f : 0.0f;
      case kRowLe:
        return a <= b ? 1.0f : 0.0f;
      default:
        return Apply(static_cast<BinaryKind>(op - kRowBinary), a, b);
    }
  }

  void OnValues(const RowStep& s) {
    if (s.op == kRowLoad) {
      acc_ = Fetch(s.kind, s.index, s.constant);
      return;
    }
    const Values b = s.op < kRowFirstTwo ? acc_ : Fetch(s.kind, s.index, s.constant);
    const Values c =
        s.op == kRowSelect ? Fetch(s.other_kind, s.other, s.constant) : Values(acc_.size());
    for (size_t i = 0; i < acc_.size(); ++i) {
      acc_[i] = s.op == kRowSelect    ? (acc_[i] != 0 ? b[i] : c[i])
                : s.op < kRowFirstTwo ? One(s.op, acc_[i])
                                      : Two(s.op, acc_[i], b[i]);
    }
  }
  void OnNumbers(const RowStep& s) {
    const float a = Number(s.kind, s.index, s.constant);
    numbers_[s.to] = s.op == kRowLoad ? a
                     : s.op < kRowFirstTwo
                         ? One(s.op, a)
                         : Two(s.op, a, Number(s.other_kind, s.other, s.constant));
  }
  void Reduce(const RowStep& s) {
    float sum = s.op == kRowSum ? 0 : s.op == kRowLargest ? -HUGE_VALF : HUGE_VALF;
    for (float x : acc_) {
      sum = s.op == kRowSum       ? std::fma(x, s.constant, sum)
            : s.op == kRowLargest ? Larger(sum, x)
                                  : -Larger(-sum, -x);
    }
    numbers_[s.to] = sum;
  }
  void Step(const RowStep& s) {
    const RowView& v = p_.views[s.what == kRowStoresNumber ? s.to : s.index];
    if (s.what == kRowOnValues) OnValues(s);
    if (s.what == kRowOnNumbers) OnNumbers(s);
    if (s.what == kRowReduces) Reduce(s);
    if (s.what == kRowSaves) slots_[s.to] = acc_;
    if (s.what == kRowStoresNumber) Put(v, At(v), Number(s.kind, s.index, s.constant));
    for (int64_t c = 0; s.what == kRowStores && c < p_.columns; ++c) {
      Put(v, At(v) + c * v.column, acc_[static_cast<size_t>(c)]);
    }
  }

  const RowProgram p_;
  const std::vector<char*> buffers_;
  int64_t outer_ = 0, inner_ = 0;
  Values acc_;
  std::map<int, Values> slots_;
  float numbers_[kRowNumbers] = {};
};

}  // namespace sinter::testing

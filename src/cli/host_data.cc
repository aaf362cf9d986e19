#include "src/cli/host_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "src/cli/memory.h"

namespace sinter::cli {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): equal everywhere, unlike std's distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  uint64_t state_;
};

// Nearest even; the values here are finite and in f16's normal range or below.
uint16_t ToBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t ToF16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude < 0x1p-14) {  // subnormal: multiples of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  }
  int exponent;
  const double mantissa = std::frexp(magnitude, &exponent);                   // [0.5, 1)
  const auto steps = static_cast<uint32_t>(std::nearbyint(mantissa * 2048));  // 1024..2048
  return static_cast<uint16_t>(sign + ((exponent + 13) << 10) + steps);
}

// e4m3; finite values within +-448.
uint8_t ToE4M3(float value) {
  const int sign = std::signbit(value) ? 0x80 : 0;
  int exponent = -5;
  if (value != 0) std::frexp(value, &exponent);
  const int step = std::max(exponent, -5) - 4;  // steps of this power of two: 3 bits of mantissa
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(std::fabs(value), -step)));
  return static_cast<uint8_t>(sign | (steps + (step + 9) * 8));
}

double ScaleOf(const sinter_tensor_info& info) {
  if ((info.flags & SINTER_INPUT_CONSTANT) == 0 || info.rank < 2) return 1.0;
  const int64_t longest = *std::max_element(info.dims, info.dims + info.rank);
  return std::sqrt(3.0 / static_cast<double>(std::max<int64_t>(3, longest)));
}

template <typename T, typename Make>
void Fill(std::string* buffer, Make&& make) {
  for (size_t at = 0; at + sizeof(T) <= buffer->size(); at += sizeof(T)) {
    const T value = make();
    std::memcpy(buffer->data() + at, &value, sizeof(T));
  }
}

void FillRandom(const sinter_tensor_info& info, Random random, std::string* buffer) {
  const double scale = ScaleOf(info);
  const auto symmetric = [&] { return static_cast<float>((2 * random.Unit() - 1) * scale); };
  switch (info.dtype) {
    case SINTER_DTYPE_BF16:
      return Fill<uint16_t>(buffer, [&] { return ToBF16(symmetric()); });
    case SINTER_DTYPE_F16:
      return Fill<uint16_t>(buffer, [&] { return ToF16(symmetric()); });
    case SINTER_DTYPE_S32:
      return Fill<int32_t>(buffer, [&] { return static_cast<int32_t>(random.Next() % 32); });
    case SINTER_DTYPE_S64:
      return Fill<int64_t>(buffer, [&] { return static_cast<int64_t>(random.Next() % 32); });
    case SINTER_DTYPE_PRED:
      return Fill<uint8_t>(buffer, [&] { return static_cast<uint8_t>(random.Next() & 1); });
    case SINTER_DTYPE_E4M3:
      return Fill<uint8_t>(buffer, [&] { return ToE4M3(symmetric()); });
    case SINTER_DTYPE_S8:
      return Fill<int8_t>(buffer, [&] { return static_cast<int8_t>(random.Next() % 255 - 127); });
    default:
      return Fill<float>(buffer, [&] { return static_cast<float>(random.Unit()); });
  }
}

// Asked for more than it has, an operating system may say yes, and end the process later.
Outcome CheckFits(uint64_t bytes) {
  const uint64_t free = FreeMemory();
  if (free == 0 || bytes <= free) return {};
  return {kUnavailable, "the chain's operands take " + std::to_string(bytes >> 20) +
                            " MiB, and this machine has " + std::to_string(free >> 20) +
                            " MiB of memory free"};
}

}  // namespace

std::vector<const void*> HostData::InputPointers() const {
  std::vector<const void*> pointers;
  for (uint32_t i = 0; i < inputs; ++i) pointers.push_back(buffers[i].data());
  return pointers;
}

std::vector<void*> HostData::OutputPointers() {
  std::vector<void*> pointers;
  for (size_t i = inputs; i < buffers.size(); ++i) pointers.push_back(buffers[i].data());
  return pointers;
}

std::vector<const void*> HostData::ConstOutputPointers() const {
  std::vector<const void*> pointers;
  for (size_t i = inputs; i < buffers.size(); ++i) pointers.push_back(buffers[i].data());
  return pointers;
}

Outcome MakeHostData(const LoadedChain& chain, uint64_t seed, HostData* out) {
  uint64_t bytes = 0;
  out->inputs = sinter_chain_get_input_count(chain.chain.get());
  const uint32_t count = out->inputs + sinter_chain_get_output_count(chain.chain.get());
  for (uint32_t i = 0; i < count; ++i) {
    sinter_tensor_info info = SINTER_INIT(sinter_tensor_info);
    SINTER_CLI_TRY(Abi([&](sinter_error** error) {
      return sinter_chain_get_buffer(chain.chain.get(), i, chain.m, &info, error);
    }));
    bytes = info.bytes > UINT64_MAX - bytes ? UINT64_MAX : bytes + info.bytes;
    SINTER_CLI_TRY(CheckFits(bytes));
    out->infos.push_back(info);
    out->buffers.emplace_back(info.bytes, '\xff');
    if (i < out->inputs) FillRandom(info, Random(seed * 1000 + i), &out->buffers.back());
  }
  return {};
}

}  // namespace sinter::cli

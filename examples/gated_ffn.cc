// A gated FFN from description to a checked result, in C++ with the CUDA driver API: Qwen3-0.6B's,
// for up to 128 rows, on a stream of the caller. Needs a Hopper GPU; exits 77 without one. Build,
// with the toolkit's cuda.h: c++ -std=c++17 gated_ffn.cc -lsinter -lcuda
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sinter/sinter.hpp"
#include "sinter/sinter_experimental.h"  // the reference that the result is compared with

namespace {

using sinter::DType;

constexpr int64_t kRows = 128, kK = 1024, kN = 3072, kL = 1024;
constexpr uint16_t kUntouched = 0xffff;  // a bf16 that no kernel writes: a NaN
constexpr int kSkipped = 77;

// Ends the program with the reason that a call of CUDA failed for.
void CheckCuda(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  std::fprintf(stderr, "%s: %s\n", call, text != nullptr ? text : "unknown error");
  std::exit(1);
}
#define CUDA(call) CheckCuda(call, #call)

[[noreturn]] void Skip(const char* why) {
  std::printf("skipped: %s\n", why);
  std::exit(kSkipped);
}

// The same for a call of Sinter.
void Check(const sinter::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", status.name(), status.message().c_str());
  std::exit(1);
}

// Device 0's primary context, current, and a stream of it.
class Device {
 public:
  Device() {
    if (cuInit(0) != CUDA_SUCCESS) Skip("no GPU");
    CUDA(cuDeviceGet(&device_, 0));
    CUcontext context;
    CUDA(cuDevicePrimaryCtxRetain(&context, device_));
    CUDA(cuCtxSetCurrent(context));
    CUDA(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  ~Device() {
    CUDA(cuStreamDestroy(stream_));
    CUDA(cuDevicePrimaryCtxRelease(device_));
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  CUstream stream() const { return stream_; }

 private:
  CUdevice device_ = 0;
  CUstream stream_ = nullptr;
};

// Memory on the device, and what goes through it.
class Buffer {
 public:
  explicit Buffer(size_t bytes) {
    if (bytes > 0) CUDA(cuMemAlloc(&address_, bytes));  // aligned to 256 bytes, Sinter needs 16
  }
  ~Buffer() {
    if (address_ != 0) CUDA(cuMemFree(address_));
  }
  Buffer(Buffer&& other) noexcept : address_(other.address_) { other.address_ = 0; }
  sinter_device_ptr address() const { return address_; }
  void Upload(const std::vector<uint16_t>& from, CUstream stream) {
    CUDA(cuMemcpyHtoDAsync(address_, from.data(), from.size() * sizeof(uint16_t), stream));
  }
  void Download(std::vector<uint16_t>* to, CUstream stream) const {
    CUDA(cuMemcpyDtoHAsync(to->data(), address_, to->size() * sizeof(uint16_t), stream));
    CUDA(cuStreamSynchronize(stream));
  }

 private:
  CUdeviceptr address_ = 0;
};

// bf16 numbers in (-scale, scale), the same for the same seed.
std::vector<uint16_t> Random(size_t count, float scale, uint32_t seed) {
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    const float number = scale * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
    uint32_t bits;
    static_assert(sizeof(bits) == sizeof(number));
    __builtin_memcpy(&bits, &number, sizeof(bits));
    value = static_cast<uint16_t>(bits >> 16);
  }
  return values;
}

// y = (silu(x Wg) * (x Wu)) Wd, the weights as nn.Linear stores them: [out, in].
sinter::Result<sinter::Chain> Describe() {
  sinter::ChainBuilder b;
  const auto x = b.Input(DType::kBf16, {sinter::kM, kK});
  const auto gate = b.Constant(DType::kBf16, {kN, kK});
  const auto up = b.Constant(DType::kBf16, {kN, kK});
  const auto down = b.Constant(DType::kBf16, {kL, kN});
  b.Output(b.GatedFfn(x, gate, up, down, sinter::Activation::kSilu));
  return b.Finish();
}

sinter::Context OpenContext() {
  const auto context = sinter::Context::Open(0);
  if (context.status().code() == SINTER_FAILED_PRECONDITION) {  // a GPU, but no Hopper
    Skip(context.status().message().c_str());
  }
  Check(context.status());
  return *context;
}

// Whether the first `m` rows of y are the reference's, and the rest is as it was.
bool Right(const sinter::Chain& chain, int64_t m, const std::vector<std::vector<uint16_t>>& inputs,
           const std::vector<uint16_t>& y) {
  std::vector<const void*> in;
  for (const auto& input : inputs) in.push_back(input.data());
  const void* out = y.data();
  sinter::Zeroed<sinter_x_check> check;
  Check(sinter::Status::Of([&](sinter_error** error) {
    return sinter_x_reference_check(chain.get(), m, static_cast<uint32_t>(in.size()), in.data(), 1,
                                    &out, 0, 0, &check, error);
  }));
  int64_t touched = 0;
  for (size_t i = static_cast<size_t>(m * kL); i < y.size(); ++i) touched += y[i] != kUntouched;
  std::printf("m = %lld: relative error %.1e, bound %.1e; %lld elements written behind it\n",
              static_cast<long long>(m), check.relative, check.relative_bound,
              static_cast<long long>(touched));
  return check.within != 0 && touched == 0;
}

bool Run() {
  const Device device;
  const sinter::Context context = OpenContext();
  const sinter::Chain chain = Describe().value();
  const auto plan = context.Prepare(chain, kRows);  // cache, or search and compile
  Check(plan.status());

  const std::vector<std::vector<uint16_t>> inputs = {
      Random(kRows * kK, 1, 1), Random(kN * kK, 0.05f, 2), Random(kN * kK, 0.05f, 3),
      Random(kL * kN, 0.05f, 4)};
  std::vector<uint16_t> y(kRows * kL);
  std::vector<Buffer> buffers;
  std::vector<sinter_device_ptr> addresses;
  for (uint32_t i = 0; i < plan->BufferCount(); ++i) {
    const auto info = chain.Buffer(i, kRows);
    Check(info.status());
    buffers.emplace_back(info->bytes);
    addresses.push_back(buffers.back().address());
    if (i < inputs.size()) buffers.back().Upload(inputs[i], device.stream());
  }
  const Buffer workspace(plan->WorkspaceSize());
  Check(plan->InitWorkspace(workspace.address(), plan->WorkspaceSize(), device.stream()));
  const auto binding = plan->Bind(addresses, workspace.address());
  Check(binding.status());

  bool right = true;
  for (const int64_t m : {kRows, int64_t{77}, int64_t{1}}) {
    y.assign(y.size(), kUntouched);
    buffers.back().Upload(y, device.stream());
    Check(binding->Launch(device.stream(), m));
    buffers.back().Download(&y, device.stream());
    right = Right(chain, m, inputs, y) && right;
  }
  return right;
}

}  // namespace

int main() { return Run() ? 0 : 1; }

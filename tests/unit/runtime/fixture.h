// What the runtime tests share: a fake driver, a device on it and a recipe that uses every kind of
// argument.
#pragma once

#include "runtime/launch/binding.h"
#include "src/base/ports.h"
#include "tests/fakes/fake_cubin.h"
#include "tests/fakes/fake_driver.h"
#include "tests/support/test.h"

namespace sinter {

inline std::string Text(const absl::Status& status) { return status.ToString(); }

// Activations [M, 64] in buffer 0, weights [256, 64] in buffer 1, output [M, 256] in buffer 2.
inline LaunchRecipe ExampleRecipe() {
  LaunchRecipe recipe{
      .entry = "k", .grid = {16, 2, 1}, .block = {128, 1, 1}, .shared_bytes = 100 * 1024};
  recipe.tensor_maps = {
      {0, 0, DType::kBF16, {Dim::Constant(64), Dim::M()}, {128}, {64, 8}, Swizzle::k128B},
      {1,
       32,
       DType::kBF16,
       {Dim::Constant(64), Dim::Constant(256)},
       {128},
       {64, 16},
       Swizzle::k128B},
  };
  recipe.args = {
      {ArgKind::kTensorMap, 0, 0, 0, 0},  {ArgKind::kTensorMap, 1, 0, 0, 0},
      {ArgKind::kPointer, 2, 64, 512, 0}, {ArgKind::kPointer, kWorkspaceBuffer, 128, 0, 0},
      {ArgKind::kSymbolM, 0, 0, 0, 0},    {ArgKind::kInt32, 0, 0, -7, 0},
      {ArgKind::kFloat32, 0, 0, 0, 0.5}};
  ArgSlot bytes{.kind = ArgKind::kBytes};
  bytes.bytes = "twelve bytes";
  recipe.args.push_back(bytes);
  return recipe;
}

inline FakeKernel ExampleKernel() { return {{128, 128, 8, 8, 4, 4, 4, 12}, 1024, 1024}; }

constexpr DevicePtr kBuffers[3] = {0x10000, 0x20000, 0x30000};
constexpr DevicePtr kWorkspace = 0x40000;
inline BufferList ExampleBuffers() { return {kBuffers, 3, kWorkspace}; }

inline std::shared_ptr<const Device> OpenFake(const FakeDriver& fake, int ordinal = 0) {
  auto driver = fake.Make();
  if (!driver.ok()) return nullptr;
  auto device = Device::Open(*driver, ordinal);
  return device.ok() ? *device : nullptr;
}

template <typename T>
T ReadAs(const std::string& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace sinter

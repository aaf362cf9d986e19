// A compiler that makes images without code, of a size that depends on the source.
#pragma once

#include "src/base/ports.h"
#include "tests/fakes/fake_cubin.h"

namespace sinter {

class FakeCompiler : public Compiler {
 public:
  static constexpr uint64_t kLeastFiller = 8 << 10, kMostFiller = 40 << 10;

  absl::StatusOr<CompiledKernel> Compile(const CompileRequest& request, const KeepGoing*) override {
    ++compiles_;
    const size_t spread = std::hash<std::string>()(request.source) % (kMostFiller - kLeastFiller);
    return CompiledKernel{.cubin = FakeCubin(request.entry, kLeastFiller + spread),
                          .registers = 64};
  }
  absl::StatusOr<std::string> ToolchainId() override { return std::string("fake 1"); }
  bool Loaded() const override { return true; }
  uint64_t Compiles() const override { return compiles_; }

 private:
  std::atomic<uint64_t> compiles_{0};
};

}  // namespace sinter

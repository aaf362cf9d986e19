// A compiler that is too old for products of 16-bit elements.
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/chain/problem.h"
#include "src/engine/core.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"
#include "tests/fakes/fake_nvrtc.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

std::shared_ptr<Engine> EngineOn(const std::string& toolchain) {
  Config config{.cache_enabled = false};
  Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
  ports.compiler = MakeNvrtcCompiler(
      NvrtcOpener([toolchain]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
        return FakeNvrtc(toolchain);
      }));
  PlanningHooks hooks{.plan = PlanChain};
  hooks.generate = [](const KernelSpec& spec,
                      const DeviceModel& model) -> absl::StatusOr<GeneratedKernel> {
    SINTER_ASSIGN_OR_RETURN(GeneratedKernel kernel, Generate(spec, model));
    absl::StrAppend(&kernel.request.source, "\n//kernel ", kernel.request.entry, "\n");
    return kernel;
  };
  hooks.assembly = MakePlanAssembly;
  hooks.device_headers = DeviceHeadersDigest();
  return CreateEngine(std::move(ports), config, LogSink(), std::move(hooks));
}

absl::Status Prepare(Engine& engine, const char* chain) {
  return engine.Prepare(ParseProblem(chain)->chain, 64, {}).status();
}

constexpr char kProduct[] = "matmul m=64 n=256 k=256 dtype=bf16";
constexpr char kCodes[] = "scaled_matmul m=64 n=256 k=256";
constexpr char kRows[] = "rmsnorm rows=64 cols=256";

TEST(OldCompilerTest, ProductsOf16BitElementsAreRefusedBeforeAnythingIsCompiled) {
  for (const char* version : {"12.4", "12.6", "12.8"}) {
    const auto engine = EngineOn(absl::StrCat("nvrtc-", version, "-fake"));
    for (const char* chain : {kProduct, "gated_ffn m=64 n=512 k=256 l=256 act=silu dtype=f16"}) {
      const absl::Status status = Prepare(*engine, chain);
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("need NVRTC 12.9"), HasSubstr(absl::StrCat("NVRTC ", version)),
                        HasSubstr("C7515"), HasSubstr("pip install nvidia-cuda-nvrtc"),
                        HasSubstr("SINTER_NVRTC")));
    }
    EXPECT_EQ(engine->ports().compiler->Compiles(), 0u);
    EXPECT_TRUE(Prepare(*engine, kRows).ok());
    EXPECT_TRUE(Prepare(*engine, kCodes).ok()) << Prepare(*engine, kCodes);
  }
}

TEST(OldCompilerTest, NewerOnesCompileThem) {
  for (const char* version : {"12.9", "13.0", "13.10"}) {
    const auto engine = EngineOn(absl::StrCat("nvrtc-", version, "-fake"));
    for (const char* chain : {kProduct, kCodes, kRows}) {
      const uint64_t compiled = engine->Stats().kernels_compiled;
      const absl::Status status = Prepare(*engine, chain);
      EXPECT_TRUE(status.ok()) << version << ": " << status;
      EXPECT_GT(engine->Stats().kernels_compiled, compiled) << version << ": " << chain;
    }
  }
}

}  // namespace
}  // namespace sinter

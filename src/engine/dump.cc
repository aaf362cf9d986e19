#include "src/engine/dump.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "src/chain/chain_json.h"
#include "src/engine/explain.h"

namespace sinter {
namespace {

void WriteFile(const EngineCore& core, const std::string& folder, absl::string_view name,
               absl::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = absl::StrCat(folder, "/", name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) core.log.Log(LogLevel::kWarn, absl::StrCat("dump: cannot write ", path));
}

}  // namespace

void DumpPlan(const EngineCore& core, const LoadedPlan& plan) {
  if (core.config.dump_dir.empty()) return;
  const std::string folder =
      absl::StrCat(core.config.dump_dir, "/", plan.plan.PlanDigest().Hex().substr(0, 16));
  WriteFile(core, folder, "chain.json", ChainToJson(*plan.chain));
  WriteFile(core, folder, "plan.txt", ExplainPlan(plan, core.ports, core.PictureOf(plan.plan)));
  WriteFile(core, folder, "plan.json", plan.plan.ToJson());
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const absl::StatusOr<GeneratedKernel> generated =
        core.hooks.generate(plan.plan.kernels[i].spec, core.ports.model);
    if (generated.ok()) {
      WriteFile(core, folder, absl::StrCat("kernel", i, ".cu"), generated->request.source);
    }
    WriteFile(core, folder, absl::StrCat("kernel", i, ".log"), plan.kernels[i]->log);
  }
}

void DumpRefusedKernel(const EngineCore& core, absl::string_view name, absl::string_view source,
                       absl::string_view log) {
  if (core.config.dump_dir.empty()) return;
  WriteFile(core, core.config.dump_dir, absl::StrCat("refused-", name, ".cu"), source);
  WriteFile(core, core.config.dump_dir, absl::StrCat("refused-", name, ".log"), log);
}

}  // namespace sinter

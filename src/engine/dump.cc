#include "src/engine/dump.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/chain/chain_json.h"
#include "src/engine/dump_files.h"
#include "src/engine/explain.h"
#include "src/explain/render.h"

namespace sinter {
namespace {

// One warning for all of a dump that could not be written.
void LogTrouble(const EngineCore& core, const absl::Status& status) {
  if (status.ok()) return;
  core.log.Log(LogLevel::kWarn, absl::StrCat("dump: cannot write: ", status.message()));
}

absl::Status WritePlan(const EngineCore& core, const LoadedPlan& plan) {
  absl::StatusOr<DumpFolder> top = DumpFolder::Open(core.config.dump_dir);
  if (!top.ok()) return top.status();
  absl::StatusOr<DumpFolder> folder = top->Sub(plan.plan.PlanDigest().Hex().substr(0, 16));
  if (!folder.ok()) return folder.status();
  absl::Status status;
  const auto write = [&](const std::string& name, absl::string_view text) {
    status.Update(folder->Write(name, text));
  };
  write("chain.json", ChainToJson(plan.chain()));
  if (plan.form->changed()) write("normal_chain.json", ChainToJson(*plan.form->chain));
  write("plan.txt",
        ExplanationText(ExplanationOf(plan, core, Detail::kWhole, NamesIn(plan.chain(), plan))));
  write("plan.json", PlanJson(plan.plan));
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const absl::StatusOr<GeneratedKernel> generated =
        core.hooks.generate(plan.plan.kernels[i].spec, core.ports.model);
    if (generated.ok()) write(absl::StrCat("kernel", i, ".cu"), generated->request.source);
    write(absl::StrCat("kernel", i, ".log"), plan.kernels[i]->log);
  }
  return status;
}

// What is there under the name of a refused kernel is that kernel's, from an earlier dump.
absl::Status WriteRefused(const EngineCore& core, absl::string_view name, absl::string_view source,
                          absl::string_view log) {
  absl::StatusOr<DumpFolder> top = DumpFolder::Open(core.config.dump_dir);
  if (!top.ok()) return top.status();
  absl::Status status = top->Write(absl::StrCat("refused-", name, ".cu"), source);
  if (absl::IsAlreadyExists(status)) return absl::OkStatus();
  status.Update(top->Write(absl::StrCat("refused-", name, ".log"), log));
  return status;
}

}  // namespace

void DumpPlan(const EngineCore& core, const LoadedPlan& plan) {
  if (!core.config.dump_dir.empty()) LogTrouble(core, WritePlan(core, plan));
}

void DumpRefusedKernel(const EngineCore& core, absl::string_view name, absl::string_view source,
                       absl::string_view log) {
  if (!core.config.dump_dir.empty()) LogTrouble(core, WriteRefused(core, name, source, log));
}

}  // namespace sinter

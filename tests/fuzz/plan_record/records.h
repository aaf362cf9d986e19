// What the target and its replay share: the engine's checks without a planner, a compiler and a
// device.
#pragma once

#include <utility>

#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/fusion/assembly.h"
#include "src/plan/family.h"

namespace sinter {

constexpr char kToolchain[] = "nvrtc-13.0-of-a-record";

inline const EngineCore& Core() {
  static const auto* const core = [] {
    Ports ports;
    ports.model = *BuiltinModel("h200");
    PlanningHooks hooks;
    hooks.assembly = MakePlanAssembly;
    hooks.device_headers = [](const KernelSpec&) { return Digest(); };  // a record outlives theirs
    hooks.entry = [](const KernelCode& code) { return code.family->TextsOfCode(code).entry; };
    return new EngineCore(std::move(ports), Config(), LogSink(), std::move(hooks));
  }();
  return *core;
}

}  // namespace sinter

// Explanation: all that is told of a plan, as data. Filled once (explain.h); the text, the JSON and
// the drawing (render.h) say what stands here and work nothing out.
#ifndef SINTER_SRC_EXPLAIN_EXPLANATION_H_
#define SINTER_SRC_EXPLAIN_EXPLANATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/description.h"

namespace sinter {

// Two kernels of which the second reads what the first wrote, or neighbours that share nothing.
struct ApartKernels {
  int from = 0, to = 0;
  int64_t bytes = 0;  // handed over; 0: nothing
  std::string why;
};

// Kernels of one key, and where their code came from.
struct KernelOrigin {
  std::vector<int> kernels;
  Digest digest;
  std::string origin;  // "compiled", "stand-in", "memory", ..
  double compile_us = 0;
  uint64_t registers = 0;
  bool verified = false;
};

// What the engine knows beside the plan.
struct PlanOrigin {
  std::string device, model, arch;
  std::string no_gpu;  // why there is none; "": there is one
  Digest chosen;       // PlanDigest of what planning chose
  uint64_t considered = 0, legal = 0;
  bool from_cache = false;
  Digest tuning_digest, agreed;
  std::string tuning;
  std::vector<KernelOrigin> kernels;
};

// A constant of the device model.
struct ModelNote {
  std::string key;         // a field of DeviceModel, "hbm_bytes_per_us"
  std::string value;       // for people: "4.55 TB/s"
  std::string provenance;  // "measured", "fitted from h200"
  std::string source;      // "cp.async.bulk read stream into shared memory, .."
};

struct ModelStory {
  std::string name, note;
  bool measured = false;
  std::vector<ModelNote> constants;
};

struct Explanation {
  Plan plan;                               // its runners_up are all plans that do not run
  std::string computes;                    // "2 kernels: gate, up and silu in one; down"
  std::vector<KernelDescription> kernels;  // as in the plan
  std::vector<std::vector<int>> equal;  // kernels that differ only in the places of their operands
  bool has_ops = false;                 // any kernel is described op by op
  std::vector<ApartKernels> apart;
  int64_t saved_bytes = 0;  // by kernels that are described op by op
  PlanOrigin origin;
  ModelStory model;

  // Entries of `apart` with one reason: pairs of groups of `equal`.
  struct Reason {
    int from_group = 0, to_group = 0;
    int count = 0;
    int64_t bytes = 0;  // of one entry
    std::string why;
  };
  std::vector<Reason> Reasons() const;
};

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_EXPLANATION_H_

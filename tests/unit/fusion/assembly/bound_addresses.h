// What the GPU would touch, from what a launch binds: tensor maps, argument slots, the strides that
// generated source spells out. Knows nothing of the check under test.
#pragma once

#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/plan/plan.h"
#include "tests/support/common.h"

namespace sinter::testing {

// "" when every launch of `plan` for `chain` stays inside its buffers and its workspace; else what
// does not. Runs the plan's kernels in their order, at several numbers of rows:
// - every byte that a kernel reads lies in an input, or was written by an earlier kernel;
// - every byte that it writes lies in an output or in the workspace, and nothing else that the
//   kernel touches lies there;
// - nothing but flags and barriers lies in the workspace's header, and they lie in it;
// - at the end every byte of every output's elements was written;
// - the launch is one that the chip takes.
// For families with runs of their own, KernelFamily::Buffers names the buffers, and every pointer
// and tensor map of a launch must lie in a buffer.
std::string FindEscape(const Chain& chain, const Plan& plan, const DeviceModel& model);

}  // namespace sinter::testing

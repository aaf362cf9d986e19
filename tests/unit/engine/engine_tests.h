// What tests of the engine include: its fakes, and the headers that most of them read.
#pragma once

#include "cache/record/record.h"
#include "src/engine/keys.h"
#include "src/engine/measured_choice.h"
#include "src/engine/tune.h"
#include "src/engine/verify.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"
#include "src/reference/reference.h"
#include "tests/support/files.h"
#include "tests/support/on_threads.h"
#include "tests/support/read_chain.h"
#include "tests/support/sequences.h"
#include "tests/support/test.h"
#include "tests/unit/engine/fakes.h"

namespace sinter {

using testing::FakeBuffers;
using testing::FakeWorld;

}  // namespace sinter

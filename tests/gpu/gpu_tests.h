// What GPU tests include: the fixture, plans built on the device, the reference.
#pragma once

#include "src/engine/bound_plan.h"
#include "src/reference/reference.h"
#include "src/reference/rows.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/on_threads.h"
#include "tests/support/sequences.h"

#pragma once
#include "tests/unit/device/host/ptx/approx.cuh"

#pragma once
#include "tests/unit/device/host/ptx/element.cuh"

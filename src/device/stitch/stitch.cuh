// What generated kernels of the stitch family include.
#pragma once
#include "stitch/columns.cuh"
#include "stitch/group.cuh"
#include "stitch/math.cuh"
#include "stitch/pack.cuh"

// One statement for each element of a vector.
#define SINTER_EACH(width) _Pragma("unroll") for (int e = 0; e < width; ++e)

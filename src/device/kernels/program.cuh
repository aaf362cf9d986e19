// What a kernel of products includes besides its dataflow where its epilogue is a generated
// program: the arithmetic of stitched kernels, so that a value has the same bits whichever kernel
// computes it.
#pragma once
#include "stitch/math.cuh"
#include "stitch/pack.cuh"
#include "tile/program.cuh"
